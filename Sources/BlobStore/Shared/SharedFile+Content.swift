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
      case .current(let map, let pages):
        return SharedFile(format, file, status, ownership, map: map, pages, for: access, isDamaged: false)
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
    case current(MappedFile, SparsePages?)
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
      let hazard = try file.mappingHazard()
      if let hazard, hazard.preventsMapping {
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
      guard access != .readWrite || !format.hasOneName || status.linkCount <= 1 else {
        self = .damaged(reason: "another hard link leads to it, so another directory may use it too")
        return
      }
      guard !isOutgrown else {
        self = .damaged(reason: "more users may write to it than to the directory, or might once")
        return
      }
      do {
        let zeros = try hazard == .readsNeedRoom && format.isSparse ? file.mapZeros(byteCount: format.byteCount) : nil
        let pages = format.isSparse ? SparsePages(byteCount: format.byteCount, zeros: zeros) : nil
        if access == .readWrite { try Self.own(file, format, pages) }
        self = .current(try file.map(byteCount: format.byteCount, isWritable: access == .readWrite), pages)
      } catch {
        if error.isLackOfRoom {
          self = .locksOnly(reason: "the volume is full, and this file is a copy that needs room to be changed")
        } else if error.errno == .operationNotSupportedByDevice || error.errno == .invalidArgument {
          self = .locksOnly(reason: "the file system cannot map files")
        } else {
          throw error
        }
      }
    }

    /// Allocates what is written to without further checks, because a copy may have holes, or share its blocks with the
    /// original file.
    private static func own(
      _ file: borrowing OpenFile, _ format: Format, _ pages: SparsePages?
    ) throws(FileError) {
      if let pages {
        try pages.allocate(0, of: file, locking: format.fillingByte)
      } else {
        _ = try file.own(0..<Int64(format.byteCount))
      }
    }
  }
}

extension MappingHazard {
  fileprivate var reason: String {
    switch self {
    case .incoherent: "a network file system"
    case .needsRoom, .readsNeedRoom:
      "the file system needs room to change what is mapped, and a full one would end the process"
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
