public import BlobRecord
internal import Posix
public import SystemPackage

extension BlobStore {
  /// The options of an import.
  public struct ImportOptions: Sendable {
    public var format: ImportFormat
    /// The lifetime of blobs that have no limit, or `nil` for the lifetime in the library that has stored them.
    public var lifetime: ImportedLifetime?
    /// A Boolean value that indicates whether a file replaces a live blob under its key.
    public var replacing = false
    /// A Boolean value that indicates whether nothing is stored, so that the results are only predictions.
    public var dryRun = false

    public init(format: ImportFormat = .files, lifetime: ImportedLifetime? = nil, replacing: Bool = false) {
      self.format = format
      self.lifetime = lifetime
      self.replacing = replacing
    }
  }
}

extension BlobStore {
  /// The lifetime of an imported blob.
  public enum ImportedLifetime: Hashable, Sendable {
    /// The directory's default expiration, counted from the last access.
    case defaultExpiration
    /// A duration from the import on.
    case limited(Duration)
    /// The blob does not expire, but a size limit may still evict it.
    case never

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
  /// The result of importing one file, with a path relative to the imported directory.
  public enum ImportFinding: Sendable {
    case imported(FilePath, BlobKey, byteCount: Int64, lifetime: ImportedLifetime)
    /// A live blob exists under the key, and `replacing` is off.
    case present(FilePath, BlobKey)
    /// The file's own lifetime has ended.
    case expired(FilePath)
    /// The entry is not a regular file, or its name begins with a dot or does not correspond to a key.
    case skipped(FilePath)
    case failed(FilePath, BlobStoreError)
  }
}

extension BlobStore {
  /// The numbers of files of an import, by result.
  public struct ImportReport: Hashable, Sendable {
    public var imported: Int64 = 0
    /// The number of imported blobs with the default expiration, and the number of blobs that never expire.
    public var withDefaultExpiration: Int64 = 0
    public var withoutExpiry: Int64 = 0
    public var present: Int64 = 0
    public var expired: Int64 = 0
    public var skipped: Int64 = 0
    public var failed: Int64 = 0
    /// The number of payload bytes of the imported blobs.
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
  /// The format of an imported directory, which determines keys and times to live.
  public enum ImportFormat: String, CaseIterable, Sendable {
    /// A directory of files, whose keys are their paths below the directory.
    case files
    /// A directory of PINCache's disk cache, with one file for each object.
    ///
    /// Its name is the key with `. : / %` escaped, an extended attribute contains its age limit, and its payload is
    /// the output of PINCache's serializer.
    case pinCache = "pincache"
    /// A directory of Nuke's `DataCache`, with a file for each key, whose SHA-1 names the file and becomes the key.
    case nuke
    /// A directory of Kingfisher's disk storage, with one file for each image.
    ///
    /// Its name, a hash of the key and possibly an extension, becomes the key. The modification time is the expiry.
    case kingfisher
    /// A directory of YYCache's disk cache: a table of keys in `manifest.sqlite`, and payloads there and in `data`.
    case yyCache = "yycache"
    /// A directory of Foundation's `URLCache`, keyed by URL: tables in `Cache.db`, bodies there and in
    /// `fsCachedData`.
    case urlCache = "urlcache"
  }
}

extension BlobStore.ImportFormat {
  var hasSubdirectories: Bool { self == .files }

  /// Returns the key of a file at a path with slashes, or `nil` if the name does not correspond to a key.
  func key(ofFileAt path: String) -> BlobKey? {
    self == .pinCache ? NameEscapes.decode(path).map { BlobKey($0) } : BlobKey(path)
  }

  /// The lifetime of blobs that have no limit, in the library that has stored them.
  var lifetimeWithoutLimit: BlobStore.ImportedLifetime {
    switch self {
    // A plain file has no lifetime, and the freshness of a response depends on its headers.
    case .files, .urlCache: .defaultExpiration
    case .pinCache, .nuke, .kingfisher, .yyCache: .never
    }
  }

  /// Returns the remaining seconds by the file's own limit, or `nil` if it has no limit.
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

  /// The year 2200 in Unix time. A Kingfisher file with a later date never expires, because Kingfisher writes
  /// `Date.distantFuture`, the year 4001. File systems clamp it to their last time: 2262 on APFS, 2446 on ext4.
  private static let distantFuture: Int64 = 7_258_118_400

  /// Returns PINCache's age limit, a C `double` (PINDiskCache.m, `PINDiskCacheAgeLimitAttributeName`). Copies on
  /// Linux have it in the `user` namespace, in which rsync and tar store it.
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
