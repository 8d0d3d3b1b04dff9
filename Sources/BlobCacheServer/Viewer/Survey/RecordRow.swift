internal import BlobCache
internal import BlobRecord
internal import BlobStore

/// What a table shows of a record.
struct RecordRow: Sendable {
  let reference: RecordReference
  let state: RecordState
  /// Of the payload; of the whole file where the header is not sound.
  let byteCount: Int64
  let updated: UnixTime?
  /// nil for a record that is locked, and where the header is not sound.
  let expiry: UnixTime?
  let lockCount: UInt32
  /// When the file was last changed: at the latest then it was locked.
  let changed: UnixTime
  let mediaType: String?
  let damage: String?
  /// About how often it was used lately; nil where no uses are counted.
  let useCount: Int?

  /// - Parameter found: what a look at the payload has told; nil if there was none.
  init(_ entry: RecordEntry, useCount: Int?, found: RecordInspection? = nil) {
    reference = entry.key.map { .key($0.string) } ?? .file(entry.file)
    state = found?.state ?? entry.state
    let header = entry.header
    byteCount = header.map { Int64(clamping: $0.payloadSize) } ?? entry.fileSize
    updated = header?.lastUpdate
    expiry = [.live, .expired].contains(entry.state) ? entry.expiry : nil
    lockCount = header?.refCount ?? 0
    changed = entry.modified
    mediaType = MediaType(extendedData: entry.extendedData)?.text
    damage = (found?.damage ?? entry.damage)?.name ?? entry.accessError?.message
    self.useCount = useCount
  }
}
