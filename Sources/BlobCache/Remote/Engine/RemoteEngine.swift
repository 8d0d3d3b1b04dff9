public import BlobRecord

/// A remote service that stores objects by name: an object store, a server, another cache.
///
/// `RemoteTier` calls it concurrently from many tasks. An engine throws a `RemoteError` for each failure, and ends a
/// call with any error when its task is cancelled. The tier retries, checks records, and applies timeouts.
public protocol RemoteEngine: Sendable {
  /// The engine's name in messages, such as `s3://bucket/prefix`. It contains no secret.
  var name: String { get }
  /// The maximum size of an object in bytes, or `nil` if no limit is known.
  var largestObject: Int64? { get }

  /// Begins to read an object.
  ///
  /// - Returns: The object, or `nil` if no object has the name.
  /// - Throws: `RemoteError`.
  func get(_ name: RemoteName) async throws -> RemoteObject?

  /// Returns the first 64 bytes of an object, which are its record's header, or all bytes of a shorter object.
  ///
  /// - Returns: The bytes, or `nil` if no object has the name.
  /// - Throws: `RemoteError`.
  func head(_ name: RemoteName) async throws -> Data?

  /// Stores an object atomically, and replaces an object of the same name.
  ///
  /// - Throws: `RemoteError`; the errors of the record's pieces.
  func put(_ record: RemoteRecord, as name: RemoteName) async throws

  /// Removes an object, if it exists.
  ///
  /// - Throws: `RemoteError`.
  func remove(_ name: RemoteName) async throws

  /// Returns a page of the names of objects, in the engine's order.
  ///
  /// - Parameters:
  ///   - prefix: The prefix of the names.
  ///   - page: `RemotePage.next` of the previous page, or `nil` for the first page.
  /// - Throws: `RemoteError` with the kind `unsupported` if the engine cannot list.
  func list(_ prefix: RemoteName, page: String?) async throws -> RemotePage

  /// Returns the capabilities of the engine.
  ///
  /// Capabilities that only an attempt can show are tested with a temporary object.
  ///
  /// - Parameter prefix: The prefix of the temporary object's name.
  /// - Throws: `RemoteError`.
  func capabilities(under prefix: RemoteName) async throws -> RemoteCapabilities

  /// Closes connections and ends threads. No call begins after it; cancelled calls may still end.
  func close() async
}

extension RemoteEngine {
  public var largestObject: Int64? { nil }

  /// Returns the first 64 bytes of an object, whose transfer is then cancelled.
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

/// A page of names of objects.
public struct RemotePage: Sendable {
  public var names: [RemoteName]
  /// The token for the next page, or `nil` after the last one.
  public var next: String?

  public init(names: [RemoteName], next: String? = nil) {
    self.names = names
    self.next = next
  }
}

/// An object that a remote engine has begun to send.
public struct RemoteObject: Sendable {
  /// The size of the object in bytes, or `nil` if the engine does not report it.
  public let byteCount: Int64?
  /// The time at which the object was stored, by the engine's clock, or `nil` if the engine does not report it.
  public var modified: UnixTime?
  /// The bytes in pieces. The sequence is iterated once, and throws an error if bytes are missing.
  public let pieces: any AsyncSequence<Data, any Error> & Sendable

  public init(byteCount: Int64?, pieces: any AsyncSequence<Data, any Error> & Sendable) {
    self.byteCount = byteCount
    self.pieces = pieces
  }

  /// Creates an object from all of its bytes.
  public init(_ bytes: Data) {
    self.init(byteCount: Int64(bytes.count), pieces: OnePiece(bytes: bytes))
  }
}

private struct OnePiece: AsyncSequence, Sendable {
  typealias Element = Data
  typealias Failure = any Error

  let bytes: Data

  func makeAsyncIterator() -> Iterator { Iterator(rest: bytes) }

  struct Iterator: AsyncIteratorProtocol {
    fileprivate var rest: Data?
    mutating func next() async throws -> Data? { rest.take() }
  }
}

/// The capabilities of a remote engine that go beyond storing objects, as observed.
public struct RemoteCapabilities: Hashable, Sendable, Codable {
  /// A Boolean value that indicates whether a put can be made conditional on the absence of the object, as tested.
  public var conditionalPut = false
  /// A Boolean value that indicates whether a put can be made conditional on the object's version, as tested.
  public var conditionalReplace = false
  /// A Boolean value that indicates whether the engine drops expired objects.
  public var expiry = false
  public var lists = false
  /// A Boolean value that indicates whether the engine removes objects; `false` if it has refused to.
  public var removes = true
  /// A Boolean value that indicates whether objects are transferred in pieces, never in memory as a whole.
  public var streams = false
  public var leases = false
  public var announcements = false
  /// The maximum size of an object in bytes, or `nil` if no limit is known.
  public var largestObject: Int64?
  /// Further information for a person, in sentences.
  public var notes: [String] = []

  public init() {}
}

/// A remote engine that grants leases, by which only one of several machines produces a blob.
///
/// A lease is a hint. Two machines may hold one if a machine pauses or the engine loses its memory. Then both produce
/// the blob, which is harmless.
public protocol RemoteLeasing: RemoteEngine {
  /// Acquires a lease, unless another machine holds it.
  ///
  /// - Parameters:
  ///   - name: The name of the object that the lease is about.
  ///   - holder: A text that identifies this machine.
  ///   - time: The time after which the lease expires.
  /// - Returns: `true` if the lease was granted, or `false` if another machine holds it.
  /// - Throws: `RemoteError` with the kind `unsupported` if the engine does not grant leases.
  func acquireLease(_ name: RemoteName, as holder: String, for time: Duration) async throws -> Bool

  /// Releases a lease, if the holder still has it.
  ///
  /// - Throws: `RemoteError`.
  func releaseLease(_ name: RemoteName, as holder: String) async throws
}

/// A remote engine through which machines announce their changes to each other.
///
/// Announcements are an optimization. Some may be lost or arrive twice.
public protocol RemoteAnnouncing: RemoteEngine {
  /// Sends a text to all current listeners of a channel.
  ///
  /// - Throws: `RemoteError`.
  func announce(_ text: String, on channel: String) async throws

  /// Listens on a channel, and receives the announcements that are sent after it returns.
  ///
  /// - Returns: The texts, until an error reports a broken connection, after which some may have been missed.
  /// - Throws: `RemoteError`.
  func announcements(on channel: String) async throws -> any AsyncSequence<String, any Error> & Sendable
}
