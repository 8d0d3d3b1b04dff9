internal import BlobStore
internal import Foundation

/// What a run does to its packs, as their files tell: how often the index has grown, and which chunks were used anew.
///
/// It is a count from below: what has come and gone between two looks is not seen.
struct PackLooks {
  private(set) var growths = 0
  private(set) var reusedChunks = 0
  private let directory: URL
  private var bucketCount: UInt64 = 0
  /// The first salt of each chunk, as it was when the chunk last had one. With each use it draws another.
  private var salts: [UInt32?] = Array(repeating: nil, count: PackLayout.chunkCount)

  /// - Parameter path: of the cache.
  init(at path: String) { directory = URL(filePath: path).appending(path: ".packs") }

  mutating func look() {
    // A file that is not there yet tells nothing.
    if let index = try? map("index"), let count = word(IndexLayout.bucketCountOffset, of: index) {
      if bucketCount > 0, count > bucketCount { growths += 1 }
      bucketCount = count
    }
    // A run fills no second pack.
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
