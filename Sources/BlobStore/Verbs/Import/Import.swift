public import BlobRecord
public import SystemPackage

extension BlobStore {
  /// How a directory is imported.
  public struct ImportOptions: Sendable {
    public var format: ImportFormat
    /// The time to live of what has none of its own; nil for the default expiration, counted from last access.
    public var timeToLive: Duration?
    /// Whether a file takes the place of a live blob under its key.
    public var replacing = false

    public init(format: ImportFormat = .files, timeToLive: Duration? = nil, replacing: Bool = false) {
      self.format = format
      self.timeToLive = timeToLive
      self.replacing = replacing
    }
  }
}

extension BlobStore {
  /// What became of one file of an import. Paths are relative to the directory that is imported.
  public enum ImportFinding: Sendable {
    case imported(FilePath, BlobKey, byteCount: Int64)
    /// There is a live blob under its key, and `replacing` is off.
    case present(FilePath, BlobKey)
    /// Its own time was over.
    case expired(FilePath)
    /// No regular file, a name that begins with a dot, or one that leads to no key.
    case skipped(FilePath)
    case failed(FilePath, BlobStoreError)
  }
}

extension BlobStore {
  /// The sum of an import, in files.
  public struct ImportReport: Hashable, Sendable {
    public var imported: Int64 = 0
    public var present: Int64 = 0
    public var expired: Int64 = 0
    public var skipped: Int64 = 0
    public var failed: Int64 = 0
    /// Payload bytes of what was imported.
    public var bytes: Int64 = 0

    public init() {}

    mutating func add(_ finding: ImportFinding) {
      switch finding {
      case .imported(_, _, let byteCount):
        imported += 1
        bytes.saturatingAdd(byteCount)
      case .present: present += 1
      case .expired: expired += 1
      case .skipped: skipped += 1
      case .failed: failed += 1
      }
    }
  }
}
