public import BlobRecord
internal import Posix
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

extension BlobStore {
  /// The format of an imported directory, which leads to keys and times to live.
  public enum ImportFormat: String, CaseIterable, Sendable {
    /// Any directory of files. A file's key is its path below the directory.
    case files
    /// A directory of PINCache's disk cache: one file per object, its name the key with `. : / %` escaped, its age limit
    /// in an extended attribute. The payload is what PINCache's serializer made of the object.
    case pinCache = "pincache"
    /// A directory of Nuke's `DataCache`: one file per key, named by the SHA-1 of the key. The name becomes the key.
    case nuke
    /// A directory of Kingfisher's disk storage: one file per image, named by a hash of its key and perhaps an extension.
    /// The name becomes the key. The time of the last modification is when the image expires.
    case kingfisher
    /// A directory of YYCache's disk cache: a table of keys in `manifest.sqlite`, payloads there and in `data`.
    case yyCache = "yycache"
    /// A directory of Foundation's `URLCache`: tables in `Cache.db`, bodies there and in `fsCachedData`. Keys are URLs.
    case urlCache = "urlcache"
  }
}

extension BlobStore.ImportFormat {
  /// Whether files in subdirectories belong to it.
  var hasSubdirectories: Bool { self == .files }

  /// - Parameter path: below the directory, with slashes.
  /// - Returns: nil for a name that leads to no key.
  func key(ofFileAt path: String) -> BlobKey? {
    self == .pinCache ? NameEscapes.decode(path).map { BlobKey($0) } : BlobKey(path)
  }

  /// How long what has no limit of its own lives in the library that has stored it.
  var lifetimeWithoutLimit: BlobStore.ImportedLifetime {
    switch self {
    // A plain file says nothing, and a response's freshness is its headers' business.
    case .files, .urlCache: .defaultExpiration
    case .pinCache, .nuke, .kingfisher, .yyCache: .never
    }
  }

  /// How many seconds a file's content has left by its own limit; nil if it has none.
  func secondsLeft(
    of file: borrowing OpenFile, modified: Int64, now: UnixTime
  ) throws(FileError) -> Double? {
    switch self {
    case .files, .nuke, .yyCache, .urlCache: nil
    case .pinCache:
      try Self.ageLimit(of: file).map { $0 - Double(now.seconds.saturatingSubtracting(modified)) }
    case .kingfisher:
      modified >= Self.distantFuture ? nil : Double(modified.saturatingSubtracting(now.seconds))
    }
  }

  /// The year 2200 in Unix time: what Kingfisher dates from then on never expires.
  ///
  /// Kingfisher writes `Date.distantFuture`, the year 4001. File systems hold it at their last time: 2262 on APFS, 2446 on ext4.
  private static let distantFuture: Int64 = 7_258_118_400

  /// PINCache writes a C `double` (PINDiskCache.m, `PINDiskCacheAgeLimitAttributeName`). Copies on Linux have it in
  /// the `user` namespace, as rsync and tar put it there.
  private static func ageLimit(of file: borrowing OpenFile) throws(FileError) -> Double? {
    for name in ageLimitAttributes {
      guard let bytes = try file.attribute(name, byteCount: MemoryLayout<Double>.size),
        bytes.count == MemoryLayout<Double>.size
      else { continue }
      let bits = bytes.reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
      let seconds = Double(bitPattern: bits)
      return seconds > 0 ? seconds : nil
    }
    return nil
  }

  private static var ageLimitAttributes: [String] {
    #if canImport(Darwin)
      ["com.pinterest.PINDiskCache.ageLimit"]
    #else
      ["user.com.pinterest.PINDiskCache.ageLimit"]
    #endif
  }
}
