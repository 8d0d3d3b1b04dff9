internal import BlobRecord
internal import Posix

/// Reads that never wait for the disk. They check what the ordinary reads check, and leave all that is odd to those.
extension PackRecords {
  /// As `read`, of a record that is in memory.
  func readCached(
    _ name: RecordPath, of key: BlobKey, at now: UnixTime
  ) throws(CachedLookFailure) -> Reading<RecordContent>? {
    try cached { records throws in try records.read(name, of: key, at: now, isCached: true) }
  }

  /// As `readHeader`, of a record that is in memory.
  func readCachedHeader(of name: RecordPath, at now: UnixTime) throws(CachedLookFailure) -> Reading<Void>? {
    try cached { records throws in try records.readHeader(of: name, at: now, isCached: true) }
  }

  /// What the file of a name says, if no entry may lead to a record of the name by now.
  func unlessMoved<Result>(_ name: RecordPath, _ reading: Result) throws(CachedLookFailure) -> Result {
    guard !mayHold(name) else { throw .notCached }
    return reading
  }

  private func cached<Result>(_ read: (PackRecords) throws -> Result) throws(CachedLookFailure) -> Result {
    do {
      return try read(self)
    } catch let failure as CachedLookFailure {
      throw failure
    } catch {
      // The ordinary look meets the failure again, and reports it.
      throw .notCached
    }
  }
}
