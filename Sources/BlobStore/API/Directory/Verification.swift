internal import BlobRecord
internal import Posix
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

  /// A file that lies where a record would, and belongs to a user whose files are not believed: it is foreign.
  public struct ForeignRecord: Hashable, Sendable {
    public let path: FilePath
    /// The path relative to the root.
    public let file: String
    public let user: UInt32
    public let group: UInt32
    public let byteCount: Int64
    /// The user that it would have to belong to, to be a record for this process.
    public let recordUser: UInt32

    init(_ path: RecordPath, _ status: Stat, in directory: FilePath, recordUser: UserID) {
      self.path = directory.appending(path.relative)
      file = path.relative
      user = status.userID.rawValue
      group = status.groupID.rawValue
      byteCount = status.size
      self.recordUser = recordUser.rawValue
    }

    /// Whose it is, and what can be done, as a part of a sentence.
    public var explanation: String {
      "its file belongs to user \(user): run as that user, or `chown \(recordUser)` the file"
    }
  }

  /// How many files lie where records would, and are foreign for their owners.
  public struct ForeignRecords: Hashable, Sendable {
    public private(set) var files: Int64 = 0
    public private(set) var bytes: Int64 = 0
    /// The user that more than half of them belong to; one of several where none has so many, nil where there are no files.
    public private(set) var user: UInt32?
    /// The user that they would have to belong to, to be records for this process.
    public private(set) var recordUser: UInt32?
    /// How far ahead `user` is: Boyer and Moore's vote.
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
