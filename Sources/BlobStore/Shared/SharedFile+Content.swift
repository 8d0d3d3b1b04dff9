internal import Logging
internal import Posix
internal import SystemPackage

extension SharedFile {
  static func open(
    _ format: Format, in directory: borrowing Directory, _ ownership: FileOwnership, logger: Logger,
    for access: FileAccess = .readWrite
  ) throws -> SharedFile? {
    switch try directory.openFile(format.name, for: access) {
    case .absent: return nil
    case .notRegular:
      throw BlobStoreError(
        .foreignFile, "something that is no file lies where \(format.title) belongs",
        path: directory.path.appending(format.name))
    case .regular(let file, let status):
      switch try Content(of: file, status, format, ownership, for: access) {
      case .current(let map):
        return SharedFile(format, file, status, ownership, map: map, for: access, isDamaged: false)
      case .locksOnly(let reason, let level):
        logger.log(level: level, "\(file.location.path): \(format.loss): \(reason)")
        return SharedFile(format, file, status, ownership, map: nil, isDamaged: false)
      case .later(let version):
        throw BlobStoreError(
          .laterVersion,
          "version \(version) of \(format.title) is later than this program, which does not know its locks; use the version "
            + "that changed this directory", path: file.location.path)
      case .damaged(let reason):
        logger.warning("\(file.location.path): \(reason); the next change replaces it")
        return SharedFile(format, file, status, ownership, map: nil, isDamaged: true)
      }
    }
  }

  enum Content: ~Copyable {
    case current(MappedFile)
    /// A file that no process can map.
    case locksOnly(reason: String, level: Logger.Level = .warning)
    /// A file of a later version of this library, which may use other locks.
    case later(version: UInt64)
    /// A file to replace, because a power cut or another program has damaged it, or too many users may write to it.
    case damaged(reason: String = "damaged")

    /// Classifies the content. Throws an error if only this process cannot map the file, and must therefore change
    /// nothing, because other processes would not notice the change.
    init(
      of file: borrowing OpenFile, _ status: Stat, _ format: Format, _ ownership: FileOwnership,
      for access: FileAccess = .readWrite
    ) throws {
      // A user with write access can end the processes that map the file by truncating it, and can write any bytes.
      let isOutgrown = ownership.isOutgrown(control: status)
      if !isOutgrown, let distrust = ownership.owners.distrust(of: status) {
        // In a sticky directory in which others may create names, the file of any other user is distrusted.
        self = .locksOnly(reason: "\(distrust)", level: ownership.isSharedByStrangers ? .notice : .warning)
        return
      }
      if let hazard = try file.mappingHazard() {
        self = .locksOnly(reason: hazard.reason, level: hazard == .needsRoom ? .info : .warning)
        return
      }
      // Read before the file is mapped, because a file of another version may be too short.
      let (magic, version) = try file.magicAndVersion()
      guard magic == format.magic, version >= format.version else {
        self = .damaged()
        return
      }
      guard version == format.version else {
        self = .later(version: version)
        return
      }
      guard format.isLength(status.size) else {
        self = .damaged()
        return
      }
      guard !isOutgrown else {
        self = .damaged(reason: "more users may write to it than to the directory, or might once")
        return
      }
      do {
        self = .current(try file.map(byteCount: format.byteCount, isWritable: access == .readWrite))
      } catch {
        guard error.errno == .operationNotSupportedByDevice || error.errno == .invalidArgument else { throw error }
        self = .locksOnly(reason: "the file system cannot map files")
      }
    }
  }
}

extension MappingHazard {
  fileprivate var reason: String {
    switch self {
    case .incoherent: "a network file system"
    case .needsRoom: "the file system needs room to change what is mapped, and a full one would end the process"
    }
  }
}

extension OpenFile {
  /// Returns the first two words of a shared file, in which missing bytes are zero.
  fileprivate borrowing func magicAndVersion() throws(FileError) -> (magic: UInt64, version: UInt64) {
    try unsafe withUnsafeTemporaryAllocation(of: UInt64.self, capacity: 2) { words throws(FileError) in
      unsafe words.initialize(repeating: 0)
      _ = try unsafe read(into: UnsafeMutableRawBufferPointer(words), at: 0)
      return unsafe (UInt64(littleEndian: words[0]), UInt64(littleEndian: words[1]))
    }
  }
}
