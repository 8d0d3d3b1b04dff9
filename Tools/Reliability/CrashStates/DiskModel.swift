/// The rules by which a file system persists changes that were not synced.
package enum DiskModel: String, CaseIterable, Sendable {
  /// Metadata reaches the medium in order, by the journal. A sync includes all earlier metadata. File data is written
  /// at any time, but before a rename that replaces another file (the default `auto_da_alloc`). The written data
  /// determines the length of a file.
  case ext4
  /// Changes reach the medium in any order: names, data and sizes independently. A sync covers only the data and the
  /// size of one file, or the names in one directory. POSIX permits this, but xfs and btrfs are stronger.
  case weak

  /// A Boolean value that indicates whether the written data determines the length of a file.
  var dataExtends: Bool { self == .ext4 }

  /// Returns the parts of a change that reach the medium independently.
  func units(of change: DiskChange) -> [DiskChange] {
    guard self == .weak, case .data(let file, let offset, let bytes, true) = change else { return [change] }
    return [.size(file: file, byteCount: offset + bytes.count), change]
  }

  /// Returns the pending changes that a sync of a file or directory writes to the medium.
  func forced(bySyncOf number: Int, among pending: [DiskChange]) -> Set<Int> {
    switch self {
    case .weak: return Set(pending.indices.filter { pending[$0].isPart(of: number) })
    case .ext4:
      let committed = pending.lastIndex { $0.isMetadata && $0.involves(number) }
      var forced = Set(pending.indices.filter { pending[$0].isPart(of: number) && !pending[$0].isMetadata })
      if let committed { forced.formUnion(withReplacingData(metadata: committed, among: pending)) }
      return forced
    }
  }

  /// Returns all metadata up to a change, and the data that must precede it.
  fileprivate func withReplacingData(metadata last: Int, among pending: [DiskChange]) -> Set<Int> {
    let metadata = pending.indices.filter { $0 <= last && pending[$0].isMetadata }
    let replacing = Set(metadata.flatMap { pending[$0].replacingFiles })
    let data = pending.indices.filter { index in
      !pending[index].isMetadata && replacing.contains { pending[index].isPart(of: $0) }
    }
    return Set(metadata + data)
  }
}

// MARK: - Subsets

extension DiskModel {
  /// Returns sets of pending changes that a power cut may leave on the medium: all such sets up to `limit`, otherwise
  /// the simplest ones and a random selection.
  func survivors(
    of pending: [DiskChange], limit: Int, using generator: inout some RandomNumberGenerator
  ) -> [Set<Int>] {
    switch self {
    case .weak: return Self.subsets(of: Array(pending.indices), among: pending, limit: limit, using: &generator)
    case .ext4:
      let metadata = pending.indices.filter { pending[$0].isMetadata }
      var sets: [Set<Int>] = []
      for last in [-1] + metadata {
        let forced = withReplacingData(metadata: last, among: pending)
        let free = pending.indices.filter { !pending[$0].isMetadata && !forced.contains($0) }
        let share = max(limit / (metadata.count + 1), 4)
        sets += Self.subsets(of: free, among: pending, limit: share, using: &generator).map { $0.union(forced) }
      }
      return sets
    }
  }

  private static func subsets(
    of items: [Int], among pending: [DiskChange], limit: Int, using generator: inout some RandomNumberGenerator
  ) -> [Set<Int>] {
    if items.count < 20, 1 << items.count <= limit {
      return (0..<(1 << items.count)).map { mask in
        Set(items.indices.filter { mask & (1 << $0) != 0 }.map { items[$0] })
      }
    }
    let all = Set(items)
    var sets: [Set<Int>] = [[], all]
    // Only a random selection of single items, because there may be very many.
    for item in items.shuffled(using: &generator).prefix(limit) { sets += [[item], all.subtracting([item])] }
    for _ in 0..<limit {
      // Some files are written back completely, some not, and some in part.
      var densities: [Int: Double] = [:]
      for file in Set(items.map { pending[$0].place }).sorted() {
        densities[file] = [0, 1, Double.random(in: 0.1...0.9, using: &generator)].randomElement(using: &generator)
      }
      sets.append(
        Set(items.filter { Double.random(in: 0..<1, using: &generator) < densities[pending[$0].place] ?? 0 }))
    }
    return Array(sets.shuffled(using: &generator).prefix(max(limit, 2)))
  }
}

extension DiskChange {
  fileprivate var isMetadata: Bool {
    switch self {
    case .entries, .size, .cut: true
    case .data, .sync: false
    }
  }

  /// Returns whether the change affects the file's content or length, or a name in the directory.
  fileprivate func isPart(of number: Int) -> Bool {
    switch self {
    case .entries(let entries): entries.contains { $0.directory == number }
    case .data(let file, _, _, _), .size(let file, _), .cut(let file, _): file == number
    case .sync: false
    }
  }

  /// The changed file, or the first changed directory for names.
  fileprivate var place: Int {
    switch self {
    case .entries(let entries): entries.first?.directory ?? DiskImage.root
    case .data(let file, _, _, _), .size(let file, _), .cut(let file, _): file
    case .sync(let number, _): number
    }
  }

  fileprivate func involves(_ number: Int) -> Bool {
    if case .entries(let entries) = self, entries.contains(where: { $0.target == number }) { return true }
    return isPart(of: number)
  }

  /// The files that replace other files. Exchanged files do not count, because both keep a name.
  fileprivate var replacingFiles: [Int] {
    guard case .entries(let entries) = self else { return [] }
    let kept = Set(entries.compactMap(\.target))
    return entries.compactMap { entry in
      guard let replaced = entry.replaced, !kept.contains(replaced) else { return nil }
      return entry.target
    }
  }
}
