/// A place beyond this machine that keeps records by name: an object store, a server, another cache.
///
/// `RemoteTier` calls it, from many tasks at once. An engine says what went wrong by a `RemoteError`, and ends what it does
/// when its task is cancelled, with any error. It need not try again, judge records, or keep deadlines: the tier does.
public protocol RemoteEngine: Sendable {
  /// What messages call the engine, such as `s3://bucket/prefix`. It tells no secret.
  var name: String { get }
  /// The bytes of an object that it takes at the most; nil where it knows no limit.
  var largestObject: Int64? { get }

  /// Begins to read an object.
  ///
  /// - Returns: nil for a name without an object.
  /// - Throws: `RemoteError`.
  func get(_ name: RemoteName) async throws -> RemoteObject?

  /// The first 64 bytes of an object, which are its record's header; all of them, if it is shorter.
  ///
  /// - Returns: nil for a name without an object.
  /// - Throws: `RemoteError`.
  func head(_ name: RemoteName) async throws -> Data?

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

  /// What the engine can do. Where only a try can tell, it tries with an object of its own, which it removes again.
  ///
  /// - Parameter prefix: where that object lies.
  /// - Throws: `RemoteError`.
  func capabilities(under prefix: RemoteName) async throws -> RemoteCapabilities

  /// Gives back connections and threads. Nothing is begun after it; calls that were cancelled may still end.
  func close() async
}

extension RemoteEngine {
  public var largestObject: Int64? { nil }

  /// Begins to read the object, and breaks off.
  public func head(_ name: RemoteName) async throws -> Data? {
    guard let object = try await get(name) else { return nil }
    var head = Data()
    for try await piece in object.pieces {
      head.append(piece.prefix(64 - head.count))
      if head.count == 64 { break }
    }
    return head
  }
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
