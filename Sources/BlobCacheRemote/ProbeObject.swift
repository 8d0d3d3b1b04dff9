#if Remote
  internal import BlobCache

  enum ProbeObject {
    static let bytes = Data("blobcache looks at what this server can do, and removes this".utf8)
  }

  extension RemoteEngine {
    /// Calls a closure with a name, and then removes its object. Returns `false` if the engine cannot remove objects.
    func withProbe(under prefix: RemoteName, _ body: (RemoteName) async throws -> Void) async throws -> Bool {
      let start = prefix.string.hasSuffix("/") ? prefix.string : prefix.string + "/"
      let object = RemoteName("\(start)probe-\(UInt64.random(in: 0 ... .max))")
      var failure: (any Error)?
      do {
        try await body(object)
      } catch {
        failure = error
      }
      // A separate task, because a cancelled task could not remove the object.
      let removal = await Task { try await self.remove(object) }.result
      // The closure's error takes precedence, because a failed removal may only be its consequence.
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
