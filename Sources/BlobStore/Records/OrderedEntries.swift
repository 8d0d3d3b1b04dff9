internal import BlobRecord
package import Posix

/// The entries of a directory in cyclic order of the digests of their names, from a start digest.
///
/// Adding and removing entries does not change the order. To bound memory, the directory is listed once per
/// `batchCount` entries. A batch contains all entries of its digests, so a walk can continue after it.
package struct OrderedEntries {
  private typealias Entry = (digest: UInt64, entry: DirectoryEntry)

  let start: UInt64
  private let batchCount: Int
  /// The first digest of the next batch, or `nil` at the end.
  private var position: UInt64?
  private var hasWrapped = false
  /// In descending order.
  private var batch: [Entry] = []
  private(set) var digest: UInt64

  package init(from start: UInt64, batchCount: Int = 65_536) {
    self.start = start
    self.batchCount = batchCount
    position = start
    digest = start
  }

  var hasMoreOfDigest: Bool { batch.last?.digest == digest }

  package mutating func next(of directory: borrowing Directory) throws -> DirectoryEntry? {
    while batch.isEmpty {
      guard let position else { return nil }
      batch = try batch(of: directory, from: position, before: hasWrapped ? start : nil)
      if batch.count >= batchCount, let last = batch.first, last.digest < .max {
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

  private func batch(
    of directory: borrowing Directory, from start: UInt64, before end: UInt64?
  ) throws -> [Entry] {
    var batch: [Entry] = []
    var entries = try directory.entries()
    var cutAt = 2 * batchCount
    func cut() {
      batch.sort { $0.digest > $1.digest }
      var surplus = max(0, batch.count - batchCount)
      // Entries with the same digest are kept together.
      while surplus > 0, batch[surplus - 1].digest == batch[surplus].digest { surplus -= 1 }
      batch.removeFirst(surplus)
      cutAt = batch.count + batchCount
    }
    while let entry = try entries.next() {
      let digest = NameDigest.digest(ofFileName: entry.name)
      guard digest >= start, digest < end ?? .max || end == nil else { continue }
      batch.append((digest, entry))
      if batch.count >= cutAt { cut() }
    }
    cut()
    return batch
  }
}

extension OrderedEntries {
  static let digestOfPacks = NameDigest.digest(ofFileName: PackDirectory.name)

  /// The entries from one digest up to, but not including, another, or all entries if the two are equal.
  struct Part {
    let start: UInt64
    let end: UInt64

    func contains(_ path: RecordPath, isPacked: Bool) -> Bool {
      let file = path.subdirectory.isEmpty ? path.fileName : path.subdirectory
      let digest = isPacked ? digestOfPacks : NameDigest.digest(ofFileName: file)
      return start < end ? digest >= start && digest < end : digest >= start || digest < end
    }
  }
}
