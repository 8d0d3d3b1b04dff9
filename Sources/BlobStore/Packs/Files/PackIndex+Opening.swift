internal import Posix
internal import SystemPackage

// An index is complete before it gets its name. It is not synced, because it can be rebuilt from the packs.
extension PackIndex {
  static let name = "index"
  /// The name of a larger index while it is filled.
  static let nextName = "index.next"

  enum Opened {
    case absent
    case index(PackIndex)
    /// The index has to be rebuilt from the packs.
    case damaged(reason: String)
    /// The index belongs to another user or a later version, or cannot be mapped.
    case unusable(reason: String)
  }

  /// Opens the index with a name. System calls: `openat2(2)`, `fstat(2)`, `fstatfs(2)`, `pread(2)`, `mmap(2)`,
  /// `close(2)`.
  static func open(_ name: String = PackIndex.name, in packs: PackDirectory) throws -> Opened {
    switch try packs.subdirectory.directory.openFile(name, for: packs.access) {
    case .absent: return .absent
    case .notRegular: return .unusable(reason: "something that is no file lies there")
    case .regular(let file, let status):
      let identity = FileIdentity(status)
      let bucketCount = bucketCount(ofFile: status.size)
      switch try SharedFile.Content(of: file, status, format(name, bucketCount), packs.ownership, for: packs.access) {
      case .locksOnly(let reason, _): return .unusable(reason: reason)
      case .later(let version): return .unusable(reason: "version \(version) of it is later than this program")
      case .damaged(let reason): return .damaged(reason: reason)
      case .current(let map, _):
        return PackIndex(map, bucketCount: bucketCount, identity).map(Opened.index) ?? .damaged(reason: "damaged")
      }
    }
  }

  /// Opens the index with a number, under either name. If it does not exist, returns the result for `name`.
  static func open(number: UInt64, in packs: PackDirectory) throws -> Opened {
    var named = Opened.absent
    // The index may be renamed between both calls.
    for _ in 0..<3 {
      named = try open(in: packs)
      if case .index(let index) = named, index.number == number { break }
      let next = try open(nextName, in: packs)
      if case .index(let index) = next, index.number == number { return next }
    }
    return named
  }

  /// Creates an index without entries, with a random seed by default. Returns `false` if another process was faster.
  static func make(
    _ name: String = PackIndex.name, bucketCount: Int, seed: UInt64? = nil, boot: SIMD2<UInt64>,
    in packs: PackDirectory,
    names: TemporaryNames
  ) throws -> Bool {
    precondition(bucketCount > 0)
    let format = format(name, bucketCount, boot, seed: seed)
    var draft = try SharedFile.draft(format, in: packs.subdirectory, packs.ownership, names: names)
    return try draft.commitOrLink(as: name)
  }

  func isCurrent(_ name: String = PackIndex.name, in packs: PackDirectory) throws(FileError) -> Bool {
    guard let named = try packs.subdirectory.directory.status(of: name) else { return false }
    return FileIdentity(named) == identity
  }

  /// Returns the number of buckets of a file, or 1 if it is too short, so that opening it reports a wrong length.
  private static func bucketCount(ofFile byteCount: Int64) -> Int {
    max(1, (Int(clamping: byteCount) - IndexLayout.headerByteCount) / IndexLayout.bucketByteCount)
  }

  private static func format(
    _ name: String, _ bucketCount: Int, _ boot: SIMD2<UInt64> = .zero, seed: UInt64? = nil
  ) -> SharedFile.Format {
    SharedFile.Format(
      name: name, title: "the index of the packs", loss: "no packs", magic: IndexLayout.magic,
      version: IndexLayout.version, byteCount: IndexLayout.byteCount(ofBuckets: bucketCount), lockedBytes: 0..<1,
      firstWords: {
        var words = [UInt64](repeating: 0, count: IndexLayout.entriesInUseOffset / 8)
        words[0] = IndexLayout.magic
        words[IndexLayout.versionOffset / 8] = IndexLayout.version
        words[IndexLayout.numberOffset / 8] = .random(in: PackIndex.numbers)
        words[IndexLayout.bucketCountOffset / 8] = UInt64(bucketCount)
        words[IndexLayout.seedOffset / 8] = seed ?? .random(in: 0 ... .max)
        words[IndexLayout.bootOffset / 8] = boot.x
        words[IndexLayout.bootOffset / 8 + 1] = boot.y
        return words
      })
  }
}
