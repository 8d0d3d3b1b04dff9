#if Remote
  /// An error that a server sends without a request, before it ends a connection: it has too many, or takes no strangers.
  struct RESPErrorReply: Error {
    let text: String
  }
#endif
