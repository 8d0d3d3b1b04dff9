internal import BlobStore
internal import Foundation

/// Counts the growths of the packs' index and the reused chunks by reading the packs' files.
///
/// The counts are lower bounds, because changes between two reads may be missed.
struct PackLooks {
  private(set) var growths = 0
  private(set) var reusedChunks = 0
  private let directory: URL
  private var bucketCount: UInt64 = 0
  /// The last known salt of each chunk's first quarter. A chunk gets a new salt with each use.
  private var salts: [UInt32?] = Array(repeating: nil, count: PackLayout.chunkCount)

  /// - Parameter path: The path of the cache.
  init(at path: String) { directory = URL(filePath: path).appending(path: ".packs") }

  mutating func look() {
    // The file may not exist yet.
    if let index = try? map("index"), let count = word(IndexLayout.bucketCountOffset, of: index) {
      if bucketCount > 0, count > bucketCount { growths += 1 }
      bucketCount = count
    }
    // A run does not fill a second pack.
    guard let pack = try? map("p-0") else { return }
    for chunk in salts.indices {
      guard let word = word(PackLayout.deadSectorOffset(ofChunk: chunk, quarter: 0), of: pack),
        let salt = PackLayout.salt(in: word)
      else { continue }
      if let known = salts[chunk], known != salt { reusedChunks += 1 }
      salts[chunk] = salt
    }
  }

  private func map(_ name: String) throws -> Data {
    try Data(contentsOf: directory.appending(path: name), options: .alwaysMapped)
  }

  private func word(_ offset: Int, of file: Data) -> UInt64? {
    guard offset + 8 <= file.count else { return nil }
    return file.withUnsafeBytes { UInt64(littleEndian: $0.loadUnaligned(fromByteOffset: offset, as: UInt64.self)) }
  }
}
