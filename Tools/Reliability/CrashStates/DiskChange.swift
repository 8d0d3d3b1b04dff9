/// One thing that a system call does to a disk, in units that a power cut keeps or loses whole.
package enum DiskChange: Hashable, Sendable {
  /// Names that one call gives, moves or takes; all at once.
  case entries([Entry])
  /// Bytes within one block.
  ///
  /// - extends: whether the file did not reach so far before.
  case data(file: Int, offset: Int, bytes: [UInt8], extends: Bool)
  /// A file gets longer by zeros.
  case size(file: Int, byteCount: Int)
  /// A file loses what lies behind.
  case cut(file: Int, byteCount: Int)
  /// A file or a directory is synced.
  case sync(Int, isDirectory: Bool)

  /// A name in a directory that comes to stand for another file or directory, or for none.
  package struct Entry: Hashable, Sendable {
    package var directory: Int
    package var name: String
    package var target: Int?
    package var isDirectory: Bool
    /// What the name stood for.
    package var replaced: Int?
  }
}

extension DiskChange {
  /// Cuts what is written where devices and file systems may tear it: behind the first sector, and between blocks.
  static func data(file: Int, range: Range<Int>, of content: FileImage, extends: Bool) -> [DiskChange] {
    var changes: [DiskChange] = []
    var start = range.lowerBound
    while start < range.upperBound {
      let boundary = start < 512 ? 512 : (start / FileImage.pageByteCount + 1) * FileImage.pageByteCount
      let end = min(boundary, range.upperBound)
      changes.append(.data(file: file, offset: start, bytes: content.bytes(in: start..<end), extends: extends))
      start = end
    }
    return changes
  }
}

extension DiskChange: CustomStringConvertible {
  package var description: String {
    switch self {
    case .entries(let entries): "names \(entries.map { "\($0.name) -> \($0.target.map(String.init) ?? "nothing")" })"
    case .data(let file, let offset, let bytes, _): "\(bytes.count) bytes of file \(file) at \(offset)"
    case .size(let file, let byteCount): "file \(file) is extended to \(byteCount)"
    case .cut(let file, let byteCount): "file \(file) is cut to \(byteCount)"
    case .sync(let number, _): "\(number) is synced"
    }
  }
}
