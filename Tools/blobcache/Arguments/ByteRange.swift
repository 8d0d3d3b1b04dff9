internal import ArgumentParser
internal import BlobStore

/// A single byte range in HTTP syntax: `0-1023`, `1024-`, `-500`.
struct ByteRange: Hashable {
  let ranges: ByteRanges
}

extension ByteRange: WrittenValue {
  static var forms: String { "a range of bytes: 0-1023, 1024- or -500 for the last 500" }

  init?(argument: String) {
    guard !argument.contains(where: { ", \t".contains($0) }), let ranges = ByteRanges(argument) else { return nil }
    self.ranges = ranges
  }
}
