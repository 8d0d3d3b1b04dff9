internal import BlobRecord
internal import PosixFiles

/// The entries of a directory in the order of their names' digests, from one on and round to it again: an order that is
/// the same next time, whatever is made and removed meanwhile.
///
/// Lists the directory once for each `batchCount` entries, so that memory does not grow with their number.
struct OrderedEntries {
  static let batchCount = 65_536

  private typealias Entry = (digest: UInt64, entry: DirectoryEntry)

  let start: UInt64
  /// What the next batch begins with; nil when all have been met.
  private var position: UInt64?
  private var hasWrapped = false
  /// In falling order.
  private var batch: [Entry] = []
  /// The digest of the entry that was met last.
  private(set) var digest: UInt64

  init(from start: UInt64) {
    self.start = start
    position = start
    digest = start
  }

  mutating func next(of directory: borrowing Directory) throws -> DirectoryEntry? {
    while batch.isEmpty {
      guard let position else { return nil }
      batch = try Self.batch(of: directory, from: position, before: hasWrapped ? start : nil)
      if batch.count == Self.batchCount, let last = batch.first, last.digest < .max {
        self.position = last.digest + 1
      } else if hasWrapped || start == 0 {
        self.position = nil
      } else {
        hasWrapped = true
        self.position = 0
      }
    }
    let last = batch.popLast()
    if let last { digest = last.digest }
    return last?.entry
  }

  private static func batch(
    of directory: borrowing Directory, from start: UInt64, before end: UInt64?
  ) throws -> [Entry] {
    var batch: [Entry] = []
    var entries = try directory.entries()
    func cut() {
      batch.sort { $0.digest > $1.digest }
      if batch.count > batchCount { batch.removeFirst(batch.count - batchCount) }
    }
    while let entry = try entries.next() {
      let digest = KeyDigest.digest(ofFileName: entry.name)
      guard digest >= start, digest < end ?? .max || end == nil else { continue }
      batch.append((digest, entry))
      if batch.count == 2 * batchCount { cut() }
    }
    cut()
    return batch
  }
}

extension OrderedEntries {
  /// The entries from one digest on and up to another, which is not among them; all if it is the same.
  struct Part {
    let start: UInt64
    let end: UInt64

    /// Whether a record is among them, or in one of them.
    func contains(_ path: RecordPath) -> Bool {
      let digest = KeyDigest.digest(ofFileName: path.subdirectory.isEmpty ? path.fileName : path.subdirectory)
      return start < end ? digest >= start && digest < end : digest >= start || digest < end
    }
  }
}
