public import SystemPackage

extension BlobStore {
  /// A finding of a verification in one place.
  public enum VerificationFinding: Sendable {
    /// A record: `state` and `damage` take the payload into account.
    case record(RecordEntry)
    /// A damaged file that was removed or moved to the quarantine.
    case repaired(RecordEntry)
    /// A record in the making, or the leftover of a writer that died.
    case temporary(FilePath)
    /// Something that is not ours.
    case foreign(FilePath)
    /// A file that is not a record only because it is another user's.
    case foreignRecord(ForeignRecord)
  }
}

extension BlobStore {
  /// The sum of a verification.
  public struct VerificationReport: Hashable, Sendable {
    public var soundRecords: Int64 = 0
    /// Sound records stamped by a clock that was ahead.
    public var stampedAhead: Int64 = 0
    /// Damaged files, those included that were repaired.
    public var damagedFiles: Int64 = 0
    /// Damaged files that were removed or moved to the quarantine.
    public var repairedFiles: Int64 = 0
    public var unreadableFiles: Int64 = 0
    public var temporaryFiles: Int64 = 0
    public var foreignFiles: Int64 = 0
    /// Foreign files that are not records only because they are another user's.
    public var foreignRecords = ForeignRecords()
    /// Bytes of the records that were read.
    public var bytes: Int64 = 0

    public init() {}

    mutating func add(_ finding: VerificationFinding) {
      switch finding {
      case .temporary: temporaryFiles += 1
      case .foreign: foreignFiles += 1
      case .foreignRecord(let record):
        foreignFiles += 1
        foreignRecords.add(record)
      case .repaired(let entry):
        bytes = bytes.saturatingAdding(entry.fileSize)
        damagedFiles += 1
        repairedFiles += 1
      case .record(let entry):
        bytes.saturatingAdd(entry.fileSize)
        switch entry.state {
        case .damaged: damagedFiles += 1
        case .streaming: temporaryFiles += 1
        case .unreadable: unreadableFiles += 1
        case .live, .expired, .locked:
          soundRecords += 1
          if entry.isStampedAhead { stampedAhead += 1 }
        }
      }
    }
  }
}
