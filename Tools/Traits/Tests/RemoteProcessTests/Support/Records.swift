import Foundation

@testable import BlobCache
@testable import BlobStore

/// Records for uploads to an engine, in a temporary directory.
final class Records: Sendable {
  private let directory: URL
  private let store: BlobStore
  private let lane = Lane(width: 2)

  init() throws {
    directory = FileManager.default.temporaryDirectory.appending(path: "records-\(UUID().uuidString)")
    store = try BlobStore(directory: directory.path)
  }

  var path: String { directory.path }

  deinit { try? FileManager.default.removeItem(at: directory) }

  private static func place(_ key: BlobKey) throws -> RemotePlace {
    try RemotePlace(of: key, in: RemoteNamespace("test"))
  }

  /// Returns a record whose bytes are in memory.
  func inMemory(_ payload: Data, key: BlobKey = "key") throws -> RemoteRecord {
    try store.store(payload, for: key, ttl: .seconds(3600))
    guard let blob = try store.load(key) else { throw Failure("\(key) is gone") }
    return RemoteRecord(blob, defaultExpiration: 3600, to: try Self.place(key))
  }

  /// Returns a record whose payload is read from its file, piece by piece.
  func inFile(_ payload: Data, key: BlobKey = "key") async throws -> RemoteRecord {
    try store.store(payload, for: key, ttl: .seconds(3600))
    guard let reader = try store.openReader(for: key) else { throw Failure("\(key) is gone") }
    let file = RemotePayloadFile(reader: reader, lane: lane)
    return try await RemoteRecord(file, defaultExpiration: 3600, to: try Self.place(key), sealedBy: nil)
  }

  /// Returns bytes that compress badly, and that differ for each seed.
  static func bytes(_ count: Int, seed: UInt64) -> Data {
    var state = seed &* 0x9E37_79B9_7F4A_7C15 | 1
    var bytes = Data(capacity: count + 8)
    while bytes.count < count {
      state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      withUnsafeBytes(of: state) { bytes.append(contentsOf: $0) }
    }
    return bytes.prefix(count)
  }
}
