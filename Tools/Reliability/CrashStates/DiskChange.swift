/// A change of a system call to a disk, in units that a power cut keeps or loses as a whole.
package enum DiskChange: Hashable, Sendable {
  /// The names that one call adds, moves or removes atomically.
  case entries([Entry])
  /// Bytes within one block.
  ///
  /// - extends: A Boolean value that indicates whether the file was shorter before.
  case data(file: Int, offset: Int, bytes: [UInt8], extends: Bool)
  /// A file is extended with zeros.
  case size(file: Int, byteCount: Int)
  /// A file is truncated.
  case cut(file: Int, byteCount: Int)
  /// A file or a directory is synced.
  case sync(Int, isDirectory: Bool)

  /// A directory entry with a new target, or without a target if the name is removed.
  package struct Entry: Hashable, Sendable {
    package var directory: Int
    package var name: String
    package var target: Int?
    package var isDirectory: Bool
    /// The previous target.
    package var replaced: Int?
  }
}

extension DiskChange {
  /// Splits data where devices and file systems may tear a write: after the first sector, and between blocks.
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
