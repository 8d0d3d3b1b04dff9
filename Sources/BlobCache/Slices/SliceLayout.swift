internal import BlobRecord
internal import TextFormats

/// The slices of one version of a large object, and their keys.
///
/// The slices of `film` are stored under `film@slices/ID/00000000` and so on. The ID is a digest of the validator and
/// the sizes, so slices of different versions never have the same key. `film@slices` contains the manifest.
struct SliceLayout: Hashable, Sendable {
  /// The maximum number of slices, all of which are tried when a version is removed.
  static let mostSlices: Int64 = 1 << 20

  let key: BlobKey
  let totalSize: Int64
  let sliceSize: Int64
  let validator: String
  private let identity: String

  /// Returns `nil` for sizes that result in no slices, or more than `mostSlices`.
  init?(key: BlobKey, totalSize: Int64, sliceSize: Int64, validator: String) {
    guard totalSize >= 0, sliceSize > 0, (totalSize - 1) / sliceSize < Self.mostSlices else { return nil }
    self.key = key
    self.totalSize = totalSize
    self.sliceSize = sliceSize
    self.validator = validator
    let text = Array(Self.text(totalSize, sliceSize, validator).utf8)
    identity = Hexadecimal.text(SHA256Digest.digest(of: unsafe text.span.bytes).prefix(8))
  }

  // MARK: Keys

  static func prefix(of key: BlobKey) -> String { key.string + "@slices" }

  var manifestKey: BlobKey { BlobKey(Self.prefix(of: key)) }

  func key(ofSlice index: Int64) -> BlobKey {
    let digits = String(index)
    return BlobKey(
      Self.prefix(of: key) + "/" + identity + "/" + String(repeating: "0", count: max(0, 8 - digits.count)) + digits)
  }

  // MARK: Ranges

  var count: Int64 { totalSize == 0 ? 0 : (totalSize - 1) / sliceSize + 1 }

  func range(ofSlices indices: Range<Int64>) -> Range<Int64> {
    // The end of the last slice is not computed, because it may exceed the range of `Int64`.
    indices.lowerBound * sliceSize..<(indices.upperBound >= count ? totalSize : indices.upperBound * sliceSize)
  }

  func slices(of range: Range<Int64>) -> Range<Int64> {
    guard !range.isEmpty else { return 0..<0 }
    return range.lowerBound / sliceSize..<(range.upperBound - 1) / sliceSize + 1
  }
}

// MARK: - The manifest

extension SliceLayout {
  private static let title = "blobcache slices 1"

  private static func text(_ totalSize: Int64, _ sliceSize: Int64, _ validator: String) -> String {
    "\(title)\n\(totalSize)\n\(sliceSize)\n\(validator)"
  }

  var manifest: Data { Data(Self.text(totalSize, sliceSize, validator).utf8) }

  init?(key: BlobKey, manifest: Data) {
    let lines = String(decoding: manifest, as: UTF8.self).split(
      separator: "\n", maxSplits: 3, omittingEmptySubsequences: false)
    guard lines.count == 4, lines[0] == Self.title, let totalSize = Int64(lines[1]), let sliceSize = Int64(lines[2])
    else { return nil }
    self.init(key: key, totalSize: totalSize, sliceSize: sliceSize, validator: String(lines[3]))
  }
}
