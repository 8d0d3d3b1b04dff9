#if Remote
  internal import BlobCache

  /// What a look at an engine puts there, to see what becomes of it.
  enum ProbeObject {
    static let bytes = Data("blobcache looks at what this server can do, and removes this".utf8)
  }

  extension RemoteEngine {
    /// Gives a closure the name of an object that no other uses, and removes the object when the closure has ended.
    ///
    /// - Returns: false if the engine removes nothing; the object stays then.
    /// - Throws: what the closure throws, else what the removal does.
    func withProbe(under prefix: RemoteName, _ body: (RemoteName) async throws -> Void) async throws -> Bool {
      let start = prefix.string.hasSuffix("/") ? prefix.string : prefix.string + "/"
      let object = RemoteName("\(start)probe-\(UInt64.random(in: 0 ... .max))")
      var failure: (any Error)?
      do {
        try await body(object)
      } catch {
        failure = error
      }
      // A task that is cancelled removes nothing any more.
      let removal = await Task { try await self.remove(object) }.result
      // The object may not be there, and the error says more than that of the removal would.
      if let failure { throw failure }
      do {
        try removal.get()
        return true
      } catch let error as RemoteError where error.kind == .unsupported {
        return false
      }
    }
  }
#endif
