internal import BlobRecord
internal import Posix
public import SystemPackage

extension BlobStore {
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
}

extension BlobStore {
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
