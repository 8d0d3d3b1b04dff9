/// Files and directories by numbers that are never reused.
///
/// Names are stored separately from their targets, as on disks.
package struct DiskImage: Sendable {
  /// The number of the top directory.
  package static let root = 0

  var directories: [Int: [String: Int]] = [root: [:]]
  var files: [Int: FileImage] = [:]

  /// Returns the changes of the call that turned this image into `next`.
  func changes(to next: DiskImage) -> [DiskChange] {
    var entries: [DiskChange.Entry] = []
    for directory in Set(directories.keys).union(next.directories.keys).sorted() {
      let (before, after) = (directories[directory] ?? [:], next.directories[directory] ?? [:])
      // Entries of a removed directory do not matter.
      guard next.directories[directory] != nil else { continue }
      for name in Set(before.keys).union(after.keys).sorted() where before[name] != after[name] {
        let isDirectory = after[name].map(next.isDirectory) ?? false
        entries.append(
          .init(
            directory: directory, name: name, target: after[name], isDirectory: isDirectory, replaced: before[name]))
      }
    }
    var changes: [DiskChange] = entries.isEmpty ? [] : [.entries(entries)]
    for (file, after) in next.files.sorted(by: { $0.key < $1.key }) {
      changes += Self.changes(of: file, from: files[file] ?? FileImage(), to: after)
    }
    return changes
  }

  private static func changes(of file: Int, from before: FileImage, to after: FileImage) -> [DiskChange] {
    guard before != after else { return [] }
    let common = min(before.byteCount, after.byteCount)
    var changes: [DiskChange] = []
    for number in before.pageNumbers.union(after.pageNumbers).sorted() {
      guard let sectors = changedSectors(before.page(number)[...], after.page(number)[...]) else { continue }
      let start = number * FileImage.pageByteCount
      let range = (start + sectors.lowerBound..<start + sectors.upperBound).clamped(to: 0..<common)
      if !range.isEmpty { changes += DiskChange.data(file: file, range: range, of: after, extends: false) }
    }
    if after.byteCount < before.byteCount { changes.append(.cut(file: file, byteCount: after.byteCount)) }
    guard after.byteCount > before.byteCount else { return changes }
    let added = before.byteCount..<after.byteCount
    if after.isZero(in: added) {
      changes.append(.size(file: file, byteCount: after.byteCount))
    } else {
      changes += DiskChange.data(file: file, range: added, of: after, extends: true)
    }
    return changes
  }

  /// Returns the range from the first changed sector to the last. Only whole sectors change, because a sector that is
  /// written later also contains the bytes of earlier calls.
  ///
  /// - Returns: The bytes of the page, or `nil` if the page is unchanged.
  private static func changedSectors(_ before: ArraySlice<UInt8>, _ after: ArraySlice<UInt8>) -> Range<Int>? {
    guard !FileImage.areSame(before, after) else { return nil }
    let changed = stride(from: 0, to: FileImage.pageByteCount, by: 512).filter {
      !FileImage.areSame(before[$0..<$0 + 512], after[$0..<$0 + 512])
    }
    return changed.first.flatMap { first in changed.last.map { first..<$0 + 512 } }
  }

  mutating func leaveOut(_ names: Set<String>) {
    directories = directories.mapValues { $0.filter { !names.contains($0.key) } }
  }

  // MARK: - Applying

  mutating func apply(_ change: DiskChange, dataExtends: Bool) {
    switch change {
    case .entries(let entries):
      for entry in entries {
        directories[entry.directory, default: [:]][entry.name] = entry.target
        // A power cut may leave the directory empty, but it is still a directory.
        if entry.isDirectory, let target = entry.target { directories[target] = directories[target] ?? [:] }
      }
    case .data(let file, let offset, let bytes, let extends):
      // If sizes are stored separately from data, bytes after the end become visible only with the new size.
      let end = extends && !dataExtends ? min(offset + bytes.count, files[file]?.byteCount ?? 0) : offset + bytes.count
      guard end > offset else { return }
      files[file, default: FileImage()].replace(at: offset, with: bytes[..<(end - offset)])
    case .size(let file, let byteCount): files[file, default: FileImage()].extend(to: byteCount)
    case .cut(let file, let byteCount): files[file]?.cut(to: byteCount)
    case .sync: break
    }
  }

  /// The files and directories that can be reached from the root.
  package var tree: DiskTree {
    var tree = DiskTree()
    add(Self.root, at: "", to: &tree)
    return tree
  }

  private func add(_ directory: Int, at path: String, to tree: inout DiskTree) {
    for (name, target) in (directories[directory] ?? [:]).sorted(by: { $0.key < $1.key }) {
      let full = path.isEmpty ? name : path + "/" + name
      if isDirectory(target) {
        tree.directories.append(full)
        add(target, at: full, to: &tree)
      } else {
        tree.files.append(.init(path: full, content: files[target] ?? FileImage()))
      }
    }
  }

  private func isDirectory(_ number: Int) -> Bool { directories[number] != nil }
}
