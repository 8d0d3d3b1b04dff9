/// A place beyond this machine that keeps records by name: an object store, a server, another cache.
///
/// `RemoteTier` calls it, from many tasks at once. An engine says what went wrong by a `RemoteError`, and ends what it does
/// when its task is cancelled, with any error. It need not try again, judge records, or keep deadlines: the tier does.
public protocol RemoteEngine: Sendable {
  /// What messages call the engine, such as `s3://bucket/prefix`. It tells no secret.
  var name: String { get }

  /// Begins to read an object.
  ///
  /// - Returns: nil for a name without an object.
  /// - Throws: `RemoteError`.
  func get(_ name: RemoteName) async throws -> RemoteObject?

  /// Stores an object in the place of the one of that name. It is there whole or not at all.
  ///
  /// - Throws: `RemoteError`; what the record's pieces throw.
  func put(_ record: RemoteRecord, as name: RemoteName) async throws

  /// Removes an object, if it is there.
  ///
  /// - Throws: `RemoteError`.
  func remove(_ name: RemoteName) async throws

  /// The names of objects, in the engine's order, a page at a time.
  ///
  /// - Parameters:
  ///   - prefix: what they begin with.
  ///   - page: `RemotePage.next` of the page before; nil for the first.
  /// - Throws: `RemoteError`; `unsupported` where the engine cannot list.
  func list(_ prefix: RemoteName, page: String?) async throws -> RemotePage

  /// Gives back connections and threads. Nothing is begun after it; calls that were cancelled may still end.
  func close() async
}

/// Some names of objects, and how to ask for the next.
public struct RemotePage: Sendable {
  public var names: [RemoteName]
  /// nil after the last page.
  public var next: String?

  public init(names: [RemoteName], next: String? = nil) {
    self.names = names
    self.next = next
  }
}
