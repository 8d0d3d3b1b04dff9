public import BlobStore

// A string is a sequence, so that the compiler takes a string for the keys of a verb on many, and speaks of characters.
extension BlobCache {
  @available(*, unavailable, message: "a key is a BlobKey: write BlobKey(string)")
  public func load(_ key: String, touching: Bool = true) async throws -> Blob? { fatalError("unavailable") }

  @available(*, unavailable, message: "a key is a BlobKey: write BlobKey(string)")
  public func load(
    _ key: String, options: ProductionOptions = ProductionOptions(),
    orStore produce: @escaping @Sendable () async throws -> Data
  ) async throws -> Blob { fatalError("unavailable") }

  @available(*, unavailable, message: "a key is a BlobKey: write BlobKey(string)")
  public func remove(_ key: String, purging: Bool = false) async throws -> BlobStore.Outcome {
    fatalError("unavailable")
  }

  @available(*, unavailable, message: "a key is a BlobKey: write BlobKey(string)")
  public func touch(_ key: String) async throws -> BlobStore.Outcome { fatalError("unavailable") }

  @available(*, unavailable, message: "a key is a BlobKey: write BlobKey(string)")
  public func lock(_ key: String) async throws -> BlobStore.Outcome { fatalError("unavailable") }

  @available(*, unavailable, message: "a key is a BlobKey: write BlobKey(string)")
  public func unlock(_ key: String, force: Bool = false) async throws -> BlobStore.Outcome { fatalError("unavailable") }
}
