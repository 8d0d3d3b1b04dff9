public import BlobRecord
public import SystemPackage

extension BlobStore {
  /// How a directory is imported.
  public struct ImportOptions: Sendable {
    public var format: ImportFormat
    /// How long what has no limit of its own lives; nil for as long as in the library that has stored it.
    public var lifetime: ImportedLifetime?
    /// Whether a file takes the place of a live blob under its key.
    public var replacing = false
    /// Whether nothing is stored: the findings and the report tell what would be.
    public var dryRun = false

    public init(format: ImportFormat = .files, lifetime: ImportedLifetime? = nil, replacing: Bool = false) {
      self.format = format
      self.lifetime = lifetime
      self.replacing = replacing
    }
  }
}

extension BlobStore {
  /// How long an imported blob lives.
  public enum ImportedLifetime: Hashable, Sendable {
    /// The directory's default expiration, counted from the last access.
    case defaultExpiration
    /// From the import on.
    case limited(Duration)
    /// It does not expire. A size limit may still evict it.
    case never

    /// As a store takes it.
    var timeToLive: Duration? {
      switch self {
      case .defaultExpiration: nil
      case .limited(let duration): duration
      case .never: .seconds(Int64.max)
      }
    }
  }
}

extension BlobStore {
  /// The outcome of one file of an import. Paths are relative to the directory that is imported.
  public enum ImportFinding: Sendable {
    case imported(FilePath, BlobKey, byteCount: Int64, lifetime: ImportedLifetime)
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
    /// Of these, blobs that live for the default expiration, and blobs that never expire.
    public var withDefaultExpiration: Int64 = 0
    public var withoutExpiry: Int64 = 0
    public var present: Int64 = 0
    public var expired: Int64 = 0
    public var skipped: Int64 = 0
    public var failed: Int64 = 0
    /// Payload bytes of the imported blobs.
    public var bytes: Int64 = 0

    public init() {}

    mutating func add(_ finding: ImportFinding) {
      switch finding {
      case .imported(_, _, let byteCount, let lifetime):
        imported += 1
        if lifetime == .defaultExpiration { withDefaultExpiration += 1 }
        if lifetime == .never { withoutExpiry += 1 }
        bytes.saturatingAdd(byteCount)
      case .present: present += 1
      case .expired: expired += 1
      case .skipped: skipped += 1
      case .failed: failed += 1
      }
    }
  }
}
