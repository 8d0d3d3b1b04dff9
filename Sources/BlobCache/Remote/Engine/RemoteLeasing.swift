/// A remote engine that grants leases, so that one machine of several produces a blob.
///
/// A lease is a hint. Two machines may hold it at once, after a pause of one or a loss of the engine's memory. Then both
/// produce, and no more has gone wrong.
public protocol RemoteLeasing: RemoteEngine {
  /// Takes a lease, unless another has it.
  ///
  /// - Parameters:
  ///   - name: of the object that the lease is about.
  ///   - holder: a text that tells this machine from all others.
  ///   - time: after which it ends by itself.
  /// - Returns: false if another has it.
  /// - Throws: `RemoteError`; `unsupported` where the engine turns out to grant none.
  func acquireLease(_ name: RemoteName, as holder: String, for time: Duration) async throws -> Bool

  /// Gives a lease back, if the holder still has it.
  ///
  /// - Throws: `RemoteError`.
  func releaseLease(_ name: RemoteName, as holder: String) async throws
}
