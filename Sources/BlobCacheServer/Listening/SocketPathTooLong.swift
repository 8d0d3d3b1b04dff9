#if Server
  /// The path of a socket has more bytes than the system takes.
  public struct SocketPathTooLong: Error, CustomStringConvertible {
    #if canImport(Darwin)
      static let limit = 103
    #else
      static let limit = 107
    #endif

    public let byteCount: Int

    public var description: String {
      "the path of a socket has at most \(Self.limit) bytes, and this one has \(byteCount)"
    }
  }
#endif
