internal import BlobRecord
internal import BlobStore

/// What the current task produces, and what those produce who asked for it: of these it must not ask for any.
enum ProductionChain {
  private struct Link: Hashable, Sendable {
    /// A key means something else in each directory. The engine lives for as long as it produces.
    let engine: ObjectIdentifier
    let key: BlobKey
  }

  @TaskLocal private static var links: Set<Link> = []

  static func contains(_ key: BlobKey, of engine: CacheEngine) -> Bool {
    links.contains(Link(engine: ObjectIdentifier(engine), key: key))
  }

  /// Runs what produces a key.
  static func producing(
    _ key: BlobKey, of engine: CacheEngine, _ body: () async throws -> Blob
  ) async throws -> Blob {
    try await $links.withValue(links.union([Link(engine: ObjectIdentifier(engine), key: key)]), operation: body)
  }
}
