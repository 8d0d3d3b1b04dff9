internal import BlobRecord
internal import Posix

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
    self == .pinCache ? PercentEncoding.decode(path).map { BlobKey($0) } : BlobKey(path)
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
