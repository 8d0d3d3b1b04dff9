internal import BlobRecord
internal import Posix

extension BlobStore {
  /// What lies in a directory that is imported, and how its file names lead to keys.
  public enum ImportFormat: String, CaseIterable, Sendable {
    /// Any directory of files. A file's key is its path below the directory.
    case files
    /// A directory of PINCache's disk cache: one file per object, its name the key with `. : / %` escaped, its age limit
    /// in an extended attribute. The payload is what PINCache's serializer made of the object.
    case pinCache = "pincache"
  }
}

extension BlobStore.ImportFormat {
  /// Whether files in subdirectories belong to it.
  var hasSubdirectories: Bool { self == .files }

  /// - Parameter path: below the directory, with slashes.
  /// - Returns: nil for a name that leads to no key.
  func key(ofFileAt path: String) -> BlobKey? {
    switch self {
    case .files: BlobKey(path)
    case .pinCache: PercentEncoding.decode(path).map { BlobKey($0) }
    }
  }

  /// How many seconds after its modification a file's content expires; nil if its format does not say.
  ///
  /// PINCache writes a C `double` (PINDiskCache.m, `PINDiskCacheAgeLimitAttributeName`). Copies on Linux have it in
  /// the `user` namespace, as rsync and tar put it there.
  func ageLimit(of file: borrowing OpenFile) throws(FileError) -> Double? {
    guard self == .pinCache else { return nil }
    for name in Self.ageLimitAttributes {
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
