/// Files and directories by numbers that are never given twice; names are kept apart from what they stand for, as disks
/// keep them.
package struct DiskImage: Sendable {
  /// The directory that all others lie below.
  package static let root = 0

  var directories: [Int: [String: Int]] = [root: [:]]
  var files: [Int: [UInt8]] = [:]

  /// What a call has done that made `next` of this.
  func changes(to next: DiskImage) -> [DiskChange] {
    var entries: [DiskChange.Entry] = []
    for directory in Set(directories.keys).union(next.directories.keys).sorted() {
      let (before, after) = (directories[directory] ?? [:], next.directories[directory] ?? [:])
      // What was in a directory that is gone does not matter.
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
      changes += Self.changes(of: file, from: files[file] ?? [], to: after)
    }
    return changes
  }

  private static func changes(of file: Int, from before: [UInt8], to after: [UInt8]) -> [DiskChange] {
    guard before != after else { return [] }
    var changes: [DiskChange] = []
    let common = 0..<min(before.count, after.count)
    if let first = common.first(where: { before[$0] != after[$0] }),
      let last = common.last(where: { before[$0] != after[$0] })
    {
      // In whole sectors: one that is written later holds what earlier calls have written to it, too.
      let sectors = first / 512 * 512..<min((last / 512 + 1) * 512, common.upperBound)
      changes += DiskChange.data(file: file, range: sectors, of: after, extends: false)
    }
    if after.count < before.count { changes.append(.cut(file: file, byteCount: after.count)) }
    guard after.count > before.count else { return changes }
    if after[before.count...].allSatisfy({ $0 == 0 }) {
      changes.append(.size(file: file, byteCount: after.count))
    } else {
      changes += DiskChange.data(file: file, range: before.count..<after.count, of: after, extends: true)
    }
    return changes
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
        // It may be found empty, but it is found to be a directory.
        if entry.isDirectory, let target = entry.target { directories[target] = directories[target] ?? [:] }
      }
    case .data(let file, let offset, let bytes, let extends):
      // Where sizes are kept apart from data, what lies behind the end is not seen until the size is there too.
      let end = extends && !dataExtends ? min(offset + bytes.count, files[file]?.count ?? 0) : offset + bytes.count
      guard end > offset else { return }
      extend(file, to: end)
      files[file]?.replaceSubrange(offset..<end, with: bytes[..<(end - offset)])
    case .size(let file, let byteCount): extend(file, to: byteCount)
    case .cut(let file, let byteCount):
      let surplus = (files[file]?.count ?? 0) - byteCount
      if surplus > 0 { files[file]?.removeLast(surplus) }
    case .sync: break
    }
  }

  private mutating func extend(_ file: Int, to byteCount: Int) {
    let missing = byteCount - (files[file]?.count ?? 0)
    // As an array it is copied at once.
    if missing > 0 { files[file, default: []] += [UInt8](repeating: 0, count: missing) }
  }

  /// What can be reached from the root.
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
        tree.files.append(.init(path: full, bytes: files[target] ?? []))
      }
    }
  }

  private func isDirectory(_ number: Int) -> Bool { directories[number] != nil }
}
