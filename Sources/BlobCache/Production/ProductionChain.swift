internal import BlobRecord
internal import BlobStore
internal import Locks

/// What the current task produces, and who waits for what: a producer must not wait for one that waits for it.
enum ProductionChain {
  /// Something that is being produced, and may be waited for.
  struct Link: Hashable, Sendable {
    enum Table: Sendable {
      case flights, refreshes
    }

    /// A key means something else in each directory. The engine lives for as long as somebody waits.
    private let engine: ObjectIdentifier
    private let table: Table
    let key: BlobKey

    init(_ key: BlobKey, in table: Table, of engine: CacheEngine) {
      self.engine = ObjectIdentifier(engine)
      self.table = table
      self.key = key
    }
  }

  /// What the current task is the producer of.
  @TaskLocal private static var current: Link?

  private static let waits = Lock(WaitGraph<Link>())

  /// Runs the producer of something.
  static func producing(_ link: Link, _ body: () async throws -> Blob) async throws -> Blob {
    try await $current.withValue(link, operation: body)
  }

  /// Waits for something.
  ///
  /// - Throws: `recursiveProduction` where that waits for what the current task produces; what `body` throws.
  static func waiting<Result>(for link: Link, _ body: () async throws -> Result) async throws -> Result {
    guard let current else { return try await body() }
    guard waits.withLock({ $0.add(from: current, to: link) }) else {
      throw BlobCacheError(
        .recursiveProduction, "its producer waits for what is being produced by who asks for it", key: link.key)
    }
    defer { waits.withLock { $0.remove(from: current, to: link) } }
    return try await body()
  }
}
