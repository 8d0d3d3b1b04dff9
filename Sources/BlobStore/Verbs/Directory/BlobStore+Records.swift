internal import BlobRecord
internal import Posix

extension BlobStore {
  /// Returns the records of the directory with their headers, in no particular order and without touching them.
  ///
  /// They include expired and damaged records, as `state` indicates. A file that cannot be read is an element too, so
  /// that nothing is omitted silently. Concurrently stored or removed records may or may not be included.
  ///
  /// - Parameter prefix: The prefix of the keys. If it is empty, records with unknown keys are included.
  /// - Throws: `invalidKey` for a prefix under the sha256 naming in the reference format; `fileSystem` if the root
  ///   cannot be listed.
  /// - Complexity: Four system calls for each record, and one more with an extension. Memory does not grow with the
  ///   number of records.
  public func records(prefix: String = "") throws(BlobStoreError) -> some Sequence<RecordEntry> {
    try withErrorContext("records") { try Records(core).recordSequence(prefix: prefix) }
  }
}

package struct RecordPage: Sendable {
  package let entries: [RecordEntry]
  /// The start of the next page, or `nil` at the end of the directory.
  package let next: WalkPosition?
}

extension BlobStore {
  /// Returns a page of the records in the order of the digests of their names, without touching them.
  ///
  /// All pages together contain every record that stays in place, and other records at most once, unless a subdirectory
  /// is replaced in the meantime. A page may be short if few records are wanted. The root is listed, and the page's
  /// records are examined, or some thousands of records if few are wanted. Throws as `records(prefix:)`.
  package func page(
    prefix: String = "", from start: WalkPosition = .start, limit: Int, where isWanted: (RecordEntry) -> Bool
  ) throws(BlobStoreError) -> RecordPage {
    try withErrorContext("records") {
      let fileNamePrefix = try Records(core).fileNamePrefix(forKeyPrefix: prefix)
      guard let walk = try Records(core).walk(fileNamePrefix: fileNamePrefix, from: start) else {
        return RecordPage(entries: [], next: nil)
      }
      walk.files.smallestPart = 1
      let sequence = RecordSequence(walk: walk, keyPrefix: prefix)
      var entries: [RecordEntry] = []
      var (emptySubdirectories, countBefore, examined) = (0, 0, 0)
      while let item = try walk.next() {
        examined += 1
        // After the last entry, the walk continues with the entries before its start.
        if walk.files.hasWrapped { return RecordPage(entries: entries, next: nil) }
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
        // Digest 0 follows the last digest, and a walk begins there, so no page follows.
        return RecordPage(entries: entries, next: position.digest == 0 ? nil : position)
      }
      return RecordPage(entries: entries, next: nil)
    }
  }

  /// Returns the position at which a walk has returned approximately this share of the records, from 0 up to 1.
  ///
  /// Records in separate files are spread evenly over subdirectories, whose digests are not spread evenly. Packed
  /// records have one position among them, and the counters determine their share. The root is listed, and a cache line
  /// is read for each chunk of packs. Throws as `records(prefix:)`.
  package func position(atShare share: Double) throws(BlobStoreError) -> WalkPosition {
    try withErrorContext("records") {
      guard let open = try core.root.opened() else { return .start }
      var digests: [UInt64] = []
      var entries = try open.directory.entries()
      while let entry = try entries.next() {
        if !entry.name.hasPrefix(".") { digests.append(NameDigest.digest(ofFileName: entry.name)) }
      }
      digests.sort()
      let packs = try Records(core).packs(of: open)
      let packedShare = try packs.map { try Records(core).share(of: $0, hasFiles: !digests.isEmpty) } ?? 0
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

  /// A page ends after this number of subdirectories without a wanted record, so that rare prefixes are fast.
  private static var mostEmptySubdirectories: Int { 128 }
  /// A page ends after this number of entries, so that a rare state does not require a walk over millions.
  private static var mostExamined: Int { 4096 }
}

extension Records {
  fileprivate func share(of packs: PackRecords, hasFiles: Bool) throws -> Double {
    guard hasFiles else { return 1 }
    let packed = try packs.recordCount()
    let all = max(try core.usageEstimate()?.records ?? packed, packed)
    return all > 0 ? Double(packed) / Double(all) : 0
  }
}

extension WalkPosition {
  package static var start: WalkPosition { WalkPosition(digest: 0) }

  /// The position as text, with which a client can continue.
  package var text: String {
    [digest, inode, UInt64(bitPattern: offset)].map { String($0, radix: 36) }.joined(separator: "-")
  }

  package init?(_ text: String) {
    let numbers = text.split(separator: "-", omittingEmptySubsequences: false).map { UInt64($0, radix: 36) }
    guard numbers.count == 3, let digest = numbers[0], let inode = numbers[1], let offset = numbers[2] else {
      return nil
    }
    self.init(digest: digest, inode: inode, offset: Int64(bitPattern: offset))
  }
}
