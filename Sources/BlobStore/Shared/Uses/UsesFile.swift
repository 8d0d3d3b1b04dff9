internal import Posix

/// `.blobcache-uses` at the root: how often and when keys were used lately, in a file of its own that grows.
enum UsesFile {
  static let name = ".blobcache-uses"

  /// - Parameter words: what a new file begins with.
  static func format(_ layout: UsesLayout, words: @escaping @Sendable () -> [UInt64] = { [] }) -> SharedFile.Format {
    SharedFile.Format(
      name: name, title: "the file of uses", loss: "no uses are counted", magic: UsesLayout.magic,
      version: UsesLayout.version, byteCount: layout.byteCount, lockedBytes: 0..<1,
      firstWords: words)
  }

  /// The words of a file in which nothing was counted.
  static func emptyWords(of layout: UsesLayout) -> [UInt64] {
    var words = [UInt64](repeating: 0, count: layout.byteCount / 8)
    words[0] = UsesLayout.magic
    words[1] = UsesLayout.version
    return words
  }
}
