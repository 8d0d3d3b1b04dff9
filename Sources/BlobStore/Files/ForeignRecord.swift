public import BlobRecord
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

    init(_ path: RecordPath, _ status: Stat, in open: OpenRoot) {
      self.path = open.directory.path.appending(path.relative)
      file = path.relative
      user = status.userID.rawValue
      group = status.groupID.rawValue
      byteCount = status.size
      recordUser = open.ownership.ownerOfNewFiles.rawValue
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

extension BlobStore {
  /// What lies in the place of a key's record, and is none because of its owner.
  ///
  /// - Returns: nil for a record, for what is no file, and where nothing is.
  public func foreignRecord(for key: BlobKey) throws(BlobStoreError) -> ForeignRecord? {
    try reporting("foreignRecord", key) {
      let path = try core.path(for: key)
      guard let open = try core.root.opened(), let subdirectory = try core.recordSubdirectory(of: path, open) else {
        return nil
      }
      return try open.foreignRecord(at: path, in: subdirectory.directory)
    }
  }
}

extension OpenRoot {
  fileprivate func foreignRecord(
    at path: RecordPath, in directory: borrowing Directory
  ) throws -> BlobStore.ForeignRecord? {
    guard let status = try directory.status(of: path.fileName), status.type == .regular, !ownership.owns(status) else {
      return nil
    }
    return BlobStore.ForeignRecord(path, status, in: self)
  }

  /// Opens what lies in the place of a record. What may not be opened and is foreign for its owner is no file.
  func openPassingOverForeign(_ path: RecordPath, for access: FileAccess) throws(FileError) -> OpenedFile {
    do {
      return try directory.openFile(path.fileName, in: path.subdirectory, for: access)
    } catch {
      guard foreignRecord(at: path, after: error) != nil else { throw error }
      return .notRegular
    }
  }

  /// What lies in the place of a record and may not be opened, if it is foreign for its owner: then it is passed over, like
  /// one that may be opened.
  ///
  /// - Parameter error: why the record could not be opened.
  func foreignRecord(at path: RecordPath, after error: FileError) -> BlobStore.ForeignRecord? {
    guard error.errno == .permissionDenied else { return nil }
    do {
      return try subdirectory(path.subdirectory).flatMap { try foreignRecord(at: path, in: $0.directory) }
    } catch {
      // The error at hand is the one to report.
      return nil
    }
  }
}
