internal import BlobRecord

/// Some records of a directory, and where the others begin.
package struct RecordPage: Sendable {
  package let entries: [RecordEntry]
  /// nil at the end of the directory.
  package let next: WalkPosition?
}

extension BlobStore {
  /// The records that a walk in the order of names' digests meets from a position on.
  ///
  /// A walk over all pages meets every record that stays where it is, and those that come and go at most once. It meets
  /// one twice only if its subdirectory is replaced meanwhile. Nothing is touched.
  ///
  /// - Parameters:
  ///   - prefix: what the keys begin with.
  ///   - start: where the page before this one has ended.
  ///   - limit: records of a page. It has fewer where many subdirectories have none that are wanted.
  ///   - isWanted: whether a record belongs to the page.
  /// - Throws: as `records(prefix:)`.
  /// - Complexity: the root is listed, and for each page one subdirectory beyond what its records take.
  package func page(
    prefix: String = "", from start: WalkPosition = .start, limit: Int, where isWanted: (RecordEntry) -> Bool
  ) throws(BlobStoreError) -> RecordPage {
    try withErrorContext("records") {
      let fileNamePrefix = try core.fileNamePrefix(forKeyPrefix: prefix)
      guard let walk = try core.walk(fileNamePrefix: fileNamePrefix, from: start) else {
        return RecordPage(entries: [], next: nil)
      }
      walk.smallestPart = 1
      let sequence = RecordSequence(walk: walk, keyPrefix: prefix)
      var entries: [RecordEntry] = []
      var (emptySubdirectories, countBefore) = (0, 0)
      while let item = try walk.next() {
        // The walk goes on with what lies before its start.
        if walk.hasWrapped { return RecordPage(entries: entries, next: nil) }
        switch item {
        case .record(let entry): if sequence.isWanted(entry), isWanted(entry) { entries.append(entry) }
        case .endOfSubdirectory:
          emptySubdirectories += entries.count == countBefore ? 1 : 0
          countBefore = entries.count
        case .temporary, .foreign, .foreignRecord: break
        }
        let mayEnd = walk.isBetweenEntries || walk.hasMetPart
        guard mayEnd, entries.count >= limit || emptySubdirectories >= Self.mostEmptySubdirectories else { continue }
        let position = walk.position
        // Behind the last of all digests is the first one, where a walk begins.
        return RecordPage(entries: entries, next: position.digest == 0 ? nil : position)
      }
      return RecordPage(entries: entries, next: nil)
    }
  }

  /// So many subdirectories without a record that is wanted end a page: a prefix that few keys have must not take long.
  private static var mostEmptySubdirectories: Int { 128 }
}

extension WalkPosition {
  package static var start: WalkPosition { WalkPosition(digest: 0) }

  /// Three numbers, for a reader that comes back with them.
  package var text: String {
    [digest, inode, UInt64(bitPattern: offset)].map { String($0, radix: 36) }.joined(separator: "-")
  }

  /// - Returns: nil for anything but three numbers.
  package init?(_ text: String) {
    let numbers = text.split(separator: "-", omittingEmptySubsequences: false).map { UInt64($0, radix: 36) }
    guard numbers.count == 3, let digest = numbers[0], let inode = numbers[1], let offset = numbers[2] else {
      return nil
    }
    self.init(digest: digest, inode: inode, offset: Int64(bitPattern: offset))
  }
}
