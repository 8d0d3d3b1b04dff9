public import BlobRecord

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

/// An object that a remote engine has begun to send.
public struct RemoteObject: Sendable {
  /// The bytes that it has in all; nil if the engine does not say.
  public let byteCount: Int64?
  /// When it was put there, by the engine's clock; nil if the engine does not say.
  public var modified: UnixTime?
  /// The bytes in pieces. It is iterated once, and ends with an error where bytes are missing.
  public let pieces: any AsyncSequence<Data, any Error> & Sendable

  public init(byteCount: Int64?, pieces: any AsyncSequence<Data, any Error> & Sendable) {
    self.byteCount = byteCount
    self.pieces = pieces
  }

  /// An object that has come whole.
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

/// What a remote engine can do besides keeping objects, as a look at it has told.
public struct RemoteCapabilities: Hashable, Sendable, Codable {
  /// A put that may only make an object: one was refused.
  public var conditionalPut = false
  /// A put that may only replace a version that is known: one was refused.
  public var conditionalReplace = false
  /// It drops each object at the end of its life.
  public var expiry = false
  public var lists = false
  /// It removes objects. An engine that does not has been seen to refuse.
  public var removes = true
  /// Objects go there and come from there in pieces, so that none lies in memory whole.
  public var streams = false
  public var leases = false
  public var announcements = false
  /// The bytes of an object that it takes at the most; nil where no limit is known.
  public var largestObject: Int64?
  /// What else a person should know, in sentences.
  public var notes: [String] = []

  public init() {}
}

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

/// A remote engine by which machines tell each other what they have changed.
///
/// Announcements are a help. Some may be lost, or come twice.
public protocol RemoteAnnouncing: RemoteEngine {
  /// Sends a text to all that listen on a channel now.
  ///
  /// - Throws: `RemoteError`.
  func announce(_ text: String, on channel: String) async throws

  /// Listens on a channel. What is announced after the return is received.
  ///
  /// - Returns: the texts, until an error ends them: the connection broke, and some may have been missed.
  /// - Throws: `RemoteError`.
  func announcements(on channel: String) async throws -> any AsyncSequence<String, any Error> & Sendable
}
