internal import BlobRecord
internal import Posix

extension BlobStore {
  /// The records of the directory, in no order, with their headers and without their payloads; nothing is touched.
  ///
  /// Expired and damaged ones are among them: `state` tells. A file that cannot be read is an element too, so that
  /// nothing is left out in silence. Records stored or removed during the enumeration may or may not be met.
  ///
  /// - Parameter prefix: what the keys begin with. Without one, all records, those included that do not tell their keys.
  /// - Throws: `invalidKey` for a prefix under the sha256 naming in the reference format; `fileSystem` if the root cannot
  ///   be listed.
  /// - Complexity: four system calls a record, and one more with an extension; memory does not grow with their number.
  public func records(prefix: String = "") throws(BlobStoreError) -> some Sequence<RecordEntry> {
    try withErrorContext("records") { try core.recordSequence(prefix: prefix) }
  }
}

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
  ///   - limit: records of a page. It has fewer where few of many are wanted.
  ///   - isWanted: whether a record belongs to the page.
  /// - Throws: as `records(prefix:)`.
  /// - Complexity: the root is listed, and a page's records are looked at, or some thousands of which few are wanted.
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
      var (emptySubdirectories, countBefore, examined) = (0, 0, 0)
      while let item = try walk.next() {
        examined += 1
        // The walk goes on with what lies before its start.
        if walk.hasWrapped { return RecordPage(entries: entries, next: nil) }
        switch item {
        case .record(let entry): if sequence.isWanted(entry), isWanted(entry) { entries.append(entry) }
        case .endOfSubdirectory:
          emptySubdirectories += entries.count == countBefore ? 1 : 0
          countBefore = entries.count
        case .temporary, .covered, .foreign, .foreignRecord: break
        }
        let mayEnd = walk.isBetweenEntries || walk.hasMetPart
        let isLong = emptySubdirectories >= Self.mostEmptySubdirectories || examined >= Self.mostExamined
        guard mayEnd, entries.count >= limit || isLong else { continue }
        let position = walk.position
        // Behind the last of all digests is the first one, where a walk begins.
        return RecordPage(entries: entries, next: position.digest == 0 ? nil : position)
      }
      return RecordPage(entries: entries, next: nil)
    }
  }

  /// Where a walk has met about this share of the records, from 0 up to 1.
  ///
  /// Records that are files are spread evenly over subdirectories. The digests of those are not even. Packed records have one place
  /// among them, and the counters say how large a part of all they are.
  ///
  /// - Throws: as `records(prefix:)`.
  /// - Complexity: the root is listed, and a cache line is read for each chunk of packs.
  package func position(atShare share: Double) throws(BlobStoreError) -> WalkPosition {
    try withErrorContext("records") {
      guard let open = try core.root.opened() else { return .start }
      var digests: [UInt64] = []
      var entries = try open.directory.entries()
      while let entry = try entries.next() {
        if !entry.name.hasPrefix(".") { digests.append(NameDigest.digest(ofFileName: entry.name)) }
      }
      digests.sort()
      let packs = try core.records.packs(of: open)
      let packedShare = try packs.map { try core.share(of: $0, hasFiles: !digests.isEmpty) } ?? 0
      let before = digests.firstIndex { $0 >= OrderedEntries.digestOfPacks } ?? digests.count
      let shareBefore = (1 - packedShare) * Double(before) / Double(max(1, digests.count))
      if let packs, packedShare > 0, shareBefore..<shareBefore + packedShare ~= share {
        let address = try packs.address(atShare: (share - shareBefore) / packedShare)
        return WalkPosition(
          digest: OrderedEntries.digestOfPacks, inode: try packs.directoryNumber, offset: Int64(address.rawValue))
      }
      let shareOfFiles = share < shareBefore ? share : share - packedShare
      let index = Int(shareOfFiles / max(1 - packedShare, .leastNonzeroMagnitude) * Double(digests.count))
      return digests.indices.contains(index) ? WalkPosition(digest: digests[index]) : .start
    }
  }

  /// So many subdirectories without a record that is wanted end a page: a prefix that few keys have must not take long.
  private static var mostEmptySubdirectories: Int { 128 }
  /// So many entries end a page: a state that few records have must not take a walk over millions.
  private static var mostExamined: Int { 4096 }
}

extension StoreCore {
  /// How large a part of all records is packed, from 0 to 1.
  fileprivate func share(of packs: PackRecords, hasFiles: Bool) throws -> Double {
    guard hasFiles else { return 1 }
    let packed = try packs.recordCount()
    let all = max(try usageEstimate()?.records ?? packed, packed)
    return all > 0 ? Double(packed) / Double(all) : 0
  }
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
