internal import BlobRecord
internal import Posix
public import SystemPackage

extension BlobStore {
  /// A file or record that a verification has found.
  public enum VerificationFinding: Sendable {
    /// A record, whose `state` and `damage` take the payload into account.
    case record(RecordEntry)
    /// A damaged file that was removed or moved to the quarantine.
    case repaired(RecordEntry)
    /// An unfinished record, or the leftover of a writer that died.
    case temporary(FilePath)
    /// A file that does not belong to the cache.
    case foreign(FilePath)
    /// A file that is not a record only because another user owns it.
    case foreignRecord(ForeignRecord)
  }

  /// The totals of a verification.
  public struct VerificationReport: Hashable, Sendable {
    public var soundRecords: Int64 = 0
    /// The number of sound records with an update time from a clock that was ahead.
    public var stampedAhead: Int64 = 0
    /// The number of damaged files, including repaired ones.
    public var damagedFiles: Int64 = 0
    /// The number of damaged files that were removed or moved to the quarantine.
    public var repairedFiles: Int64 = 0
    public var unreadableFiles: Int64 = 0
    public var temporaryFiles: Int64 = 0
    public var foreignFiles: Int64 = 0
    /// The foreign files that are not records only because another user owns them.
    public var foreignRecords = ForeignRecords()
    /// The number of bytes of the records that were read.
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

  /// A file in the place of a record that is foreign because its owner is not trusted.
  public struct ForeignRecord: Hashable, Sendable {
    public let path: FilePath
    /// The path relative to the root.
    public let file: String
    public let user: UInt32
    public let group: UInt32
    public let byteCount: Int64
    /// The user that would have to own the file for this process to accept it as a record.
    public let recordUser: UInt32

    init(_ path: RecordPath, _ status: Stat, in directory: FilePath, recordUser: UserID) {
      self.path = directory.appending(path.relative)
      file = path.relative
      user = status.userID.rawValue
      group = status.groupID.rawValue
      byteCount = status.size
      self.recordUser = recordUser.rawValue
    }

    /// The owner of the file and the possible remedies, as part of a sentence.
    public var explanation: String {
      "its file belongs to user \(user): run as that user, or `chown \(recordUser)` the file"
    }
  }

  /// The total of the files in the places of records that are foreign because of their owners.
  public struct ForeignRecords: Hashable, Sendable {
    public private(set) var files: Int64 = 0
    public private(set) var bytes: Int64 = 0
    /// The owner of more than half of the files, or one of several owners, or `nil` without files.
    public private(set) var user: UInt32?
    /// The user that would have to own the files for this process to accept them as records.
    public private(set) var recordUser: UInt32?
    /// The lead of `user` in the majority vote algorithm by Boyer and Moore.
    private var lead: Int64 = 0

    public init() {}

    mutating func add(_ record: ForeignRecord) {
      files += 1
      bytes.saturatingAdd(record.byteCount)
      recordUser = record.recordUser
      if lead == 0 { user = record.user }
      lead += record.user == user ? 1 : -1
    }
  }
}
