public import BlobRecord
internal import PosixFiles
internal import Synchronization
public import SystemPackage

#if canImport(FoundationEssentials)
  public import FoundationEssentials
#else
  public import Foundation
#endif

extension BlobStore {
  /// Stores a blob, in place of what was stored under the key.
  ///
  /// Readers see the old blob or the new one, whole. A store that throws leaves the old one as it was; except that
  /// when it throws for a sync after the change, the new one is in place but not known to be on the medium.
  ///
  /// System calls: Spec/Performance.md 1.
  ///
  /// - Parameters:
  ///   - ttl: the time to live, rounded up to whole seconds; nil for the default expiration, counted from last access.
  ///   - locked: whether the record is locked once; otherwise it is not locked, whatever the old one was.
  ///   - keepingLocks: whether the old record's locks are kept instead, `locked` then asking for at least one.
  /// - Throws: `invalidKey`, `invalidTimeToLive`, `payloadTooLarge`, `foreignFile`, `fileSystem`.
  public func store(
    _ payload: Data, for key: BlobKey, ttl: Duration? = nil, locked: Bool = false, keepingLocks: Bool = false
  ) throws(BlobStoreError) {
    try store(payload.bytes, for: key, ttl: ttl, locked: locked, keepingLocks: keepingLocks)
  }

  /// Stores bytes that lie somewhere in memory, without a copy of them.
  public func store(
    _ payload: RawSpan, for key: BlobKey, ttl: Duration? = nil, locked: Bool = false, keepingLocks: Bool = false
  ) throws(BlobStoreError) {
    _ = try storeWithReceipt(payload, for: key, ttl: ttl, locked: locked, keepingLocks: keepingLocks)
  }

  /// The same, and says what lies on disk now.
  package func storeWithReceipt(
    _ payload: RawSpan, for key: BlobKey, ttl: Duration?, locked: Bool, keepingLocks: Bool
  ) throws(BlobStoreError) -> StoreReceipt {
    let bytes = payload
    return try reporting("store", key) {
      try checkSize(Int64(bytes.byteCount))
      var header = try newHeader(ttl: ttl, locked: locked)
      header.payloadSize = UInt64(bytes.byteCount)
      if configuration.format == .checksummed { header.payloadChecksum = CRC32.checksum(of: bytes) }
      return try publish(key, header, keepingLocks: keepingLocks, canWriteAgain: true) {
        file, header in
        try header.withEncodedBytes { head throws(FileError) in try file.write(head, bytes) }
      }
    }
  }

  /// Stores what can be read from a descriptor until its end, in pieces of 256 KiB: the payload is never in memory as
  /// a whole.
  ///
  /// - Returns: the payload's size in bytes.
  @discardableResult
  public func store(
    contentsOf input: FileDescriptor, for key: BlobKey, ttl: Duration? = nil, locked: Bool = false,
    keepingLocks: Bool = false
  ) throws(BlobStoreError) -> Int64 {
    try reporting("store", key) {
      let input = Input(descriptor: input, path: nil, files: root.files)
      return try publish(key, input, ttl: ttl, locked: locked, keepingLocks: keepingLocks)
    }
  }

  /// Stores what a file holds, in the same way.
  ///
  /// - Returns: the payload's size in bytes.
  @discardableResult
  public func store(
    contentsOf path: FilePath, for key: BlobKey, ttl: Duration? = nil, locked: Bool = false, keepingLocks: Bool = false
  ) throws(BlobStoreError) -> Int64 {
    try reporting("store", key) {
      let input: FileDescriptor
      do {
        input = try FileDescriptor.open(path, .readOnly, options: .closeOnExec)
      } catch let error as Errno {
        throw FileError(.open, Location(path), error)
      }
      // Nothing was written through it, so closing it loses nothing.
      defer { try? input.close() }
      return try publish(
        key, Input(descriptor: input, path: path, files: root.files), ttl: ttl, locked: locked,
        keepingLocks: keepingLocks)
    }
  }
}

// MARK: - Preparing

extension BlobStore {
  private func newHeader(ttl: Duration?, locked: Bool) throws -> RecordHeader {
    RecordHeader(
      refCount: locked ? 1 : 0, ttl: try storedTimeToLive(ttl),
      updateTime: UInt64(clamping: configuration.now().seconds), payloadSize: 0)
  }

  func checkSize(_ byteCount: Int64) throws(BlobStoreError) {
    guard byteCount <= configuration.maximumPayload else {
      throw BlobStoreError(
        .payloadTooLarge,
        "a payload of at least \(byteCount) bytes is larger than the maximum of \(configuration.maximumPayload)")
    }
    if let limit = configuration.sizeLimit, byteCount > limit - Int64(RecordHeader.byteCount) {
      throw BlobStoreError(
        .payloadTooLarge,
        "a payload of at least \(byteCount) bytes does not fit into the size limit of \(limit)")
    }
  }

  /// Where a payload that is read in pieces comes from.
  private struct Input {
    let descriptor: FileDescriptor
    /// What errors call it, where it has a name.
    let path: FilePath?
    let files: Files

    /// - Returns: 0 at the end.
    func read(into buffer: UnsafeMutableRawBufferPointer) throws(BlobStoreError) -> Int {
      while true {
        do {
          return unsafe try descriptor.read(into: buffer)
        } catch Errno.wouldBlock, Errno.resourceTemporarilyUnavailable {
          do {
            try Readiness.toRead.wait(for: descriptor, Location(path ?? FilePath()), files: files)
          } catch {
            throw failure(error.call.manualPage, error.errno)
          }
        } catch {
          throw failure("read(2)", error)
        }
      }
    }

    private func failure(_ systemCall: String, _ error: any Error) -> BlobStoreError {
      BlobStoreError(
        .fileSystem, "\(systemCall) of the input: \(error)", path: path, systemCall: systemCall, errno: error as? Errno)
    }
  }

  private func publish(
    _ key: BlobKey, _ input: Input, ttl: Duration?, locked: Bool, keepingLocks: Bool
  ) throws -> Int64 {
    let header = try newHeader(ttl: ttl, locked: locked)
    let receipt = try publish(key, header, keepingLocks: keepingLocks, canWriteAgain: false) { file, header in
      try copyPayload(from: input, to: file, header: &header)
      try header.withEncodedBytes { head throws(FileError) in try file.write(head, at: 0) }
    }
    return Int64(clamping: receipt.header.payloadSize)
  }

  private func copyPayload(
    from input: Input, to file: borrowing OpenFile, header: inout RecordHeader
  ) throws {
    var checksum = CRC32()
    var byteCount: Int64 = 0
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: Self.pieceByteCount, alignment: 16)
    defer { unsafe buffer.deallocate() }
    while true {
      let count = try unsafe input.read(into: buffer)
      if count == 0 { break }
      try checkSize(byteCount + Int64(count))
      let piece = unsafe RawSpan(_unsafeBytes: buffer[..<count])
      if configuration.format == .checksummed { checksum.update(piece) }
      try file.write(piece, at: Int64(RecordHeader.byteCount) + byteCount)
      byteCount += Int64(count)
    }
    header.payloadSize = UInt64(byteCount)
    if configuration.format == .checksummed { header.payloadChecksum = checksum.value }
  }

  /// How much of a payload is in memory where it is read in pieces: large enough that calls cost nothing beside
  /// copying, small enough for the second-level cache.
  static var pieceByteCount: Int { 256 << 10 }
}

// MARK: - Publishing

extension BlobStore {
  /// Writes a record beside its place and puts it there.
  ///
  /// - Parameters:
  ///   - canWriteAgain: whether the header has the payload's size, and `write` may be called more than once.
  ///   - write: fills the file, and may complete the header.
  private func publish(
    _ key: BlobKey, _ header: RecordHeader, keepingLocks: Bool, canWriteAgain: Bool,
    _ write: (borrowing OpenFile, inout RecordHeader) throws -> Void
  ) throws -> StoreReceipt {
    let path = try path(for: key)
    var header = header
    if configuration.format == .checksummed { header.keyDigest = path.digest }
    // Collections in a tight loop have been seen to remove an empty subdirectory four times in a row before anything
    // was put into it. Making it again is cheap; writing the payload again is not.
    var (mayMakeAgain, mayWriteAgain) = (RootDirectory.removalsOutlasted, 3)
    var (mayRecycle, mayBeUnnamed, mayEmptyBin) = (canWriteAgain, canWriteAgain, true)
    while true {
      var (hasWritten, wasRecycled, wasUnnamed) = (false, false, false)
      do {
        let root = try root.openedOrMade()
        let directory = try root.openOrMakeSubdirectory(path.subdirectory)
        var temporary = try fileToWrite(
          header, mayBeRecycled: mayRecycle, mayBeUnnamed: mayBeUnnamed, in: directory, of: root)
        (hasWritten, wasRecycled, wasUnnamed) = (true, temporary.isRecycled, temporary.isUnnamed)
        try write(temporary.file, &header)
        try temporary.cutOff(at: Self.fileByteCount(header))
        return try publish(&temporary, at: path, of: root, header, keepingLocks: keepingLocks)
      } catch is NotToBeRecycled {
        // Only a payload in memory is written to a recycled file.
        mayRecycle = false
      } catch let error as FileError where wasRecycled && error.isRefusalOfARename {
        // Perhaps files may be written to in the bin, and not be renamed from it.
        try refuseBin(error)
        mayRecycle = false
      } catch let error as FileError where wasUnnamed && error.call == .linkUnnamed && root.files.refusesUnnamedFiles {
        mayBeUnnamed = false
      } catch let error as FileError where error.errno == .noSuchFileOrDirectory {
        // Somebody removed the subdirectory (a collection does, when it is empty), the recycled file or the root under us.
        if wasRecycled || wasUnnamed {
          // A file with a name keeps its subdirectory from being empty.
          (mayRecycle, mayBeUnnamed) = (false, false)
        } else if hasWritten {
          guard canWriteAgain, mayWriteAgain > 0 else { throw error }
          mayWriteAgain -= 1
        } else {
          guard mayMakeAgain > 0 else { throw error }
          mayMakeAgain -= 1
        }
        _ = try root.forgetIfReplacedNow()
      } catch let error as FileError where error.errno == .noSpace || error.errno == .diskQuotaExceeded {
        guard canWriteAgain || !hasWritten else { throw error }
        if mayEmptyBin, makesRoomByEmptyingBin() {
          mayEmptyBin = false
        } else {
          guard keeper?.rescue() == true else { throw error }
        }
      }
    }
  }

  /// A file from the recycling bin, if there is one of that size, else a new one.
  private func fileToWrite(
    _ header: RecordHeader, mayBeRecycled: Bool, mayBeUnnamed: Bool, in directory: consuming Directory,
    of root: RootDirectory.Opened
  ) throws -> TemporaryFile {
    if mayBeRecycled, let recycled = recycledFile(for: header, byteCount: Self.fileByteCount(header), of: root) {
      return TemporaryFile(recycled, in: directory, names: temporaryNames)
    }
    if mayBeUnnamed, let file = try directory.createUnnamedFile(permissions: root.filePermissions) {
      return try TemporaryFile(unnamed: file, in: directory, of: root, names: temporaryNames)
    }
    return try TemporaryFile(in: directory, of: root, names: temporaryNames)
  }

  /// The bytes of a record's file.
  private static func fileByteCount(_ header: RecordHeader) -> Int64 {
    Int64(RecordHeader.byteCount).saturatingAdding(Int64(clamping: header.payloadSize))
  }

  /// What one try to publish under the stripe has come to.
  private enum Publication {
    case done(Durability.Level, exceeding: UsageEstimate?, generation: UInt32?)
    /// There is too much in the directory.
    case mustWait(UsageEstimate)
    /// The record must be on the medium before it is published, which is not done under the stripe.
    case mustSync(Durability.Level)
  }

  private func publish(
    _ temporary: inout TemporaryFile, at path: RecordPath, of root: RootDirectory.Opened, _ header: RecordHeader,
    keepingLocks: Bool
  ) throws -> StoreReceipt {
    let askedRefCount = header.refCount
    var header = header
    var level = configuration.durability.level(concernsLock: header.isLocked)
    var isSynced = false
    var wait: LimitKeeper.Wait?
    defer { keeper?.end(wait) }
    keeper?.willStore(path.digest)
    while true {
      if level > .none, !isSynced {
        // After a failure the file is given up, never synced again.
        try temporary.file.synchronize(level == .full ? .full : .barrier)
        isSynced = true
      }
      let publication = try stripes.withStripe(of: path.digest) { hold throws -> Publication in
        let byteCount = Self.fileByteCount(header)
        if header.refCount == askedRefCount, mayTryWithoutLooking(temporary, keepingLocks: keepingLocks) {
          let new = RecordSize(bytes: byteCount, isLocked: header.isLocked)
          let counted = try hold.counting(from: nil, to: new, within: keeper?.limit) {
            try hold.changingPayload(level) { try temporary.publishIfAbsent(as: path.fileName) } == true
          }
          if case .done(let usage) = counted { return .done(level, exceeding: usage, generation: hold.generation) }
          // Where it replaces something, it may take no more room than that.
        }
        let displaced = try recordToDisplace(at: path, in: temporary.directory, of: root)
        lastStoreReplaced.store(displaced != nil, ordering: .relaxed)
        // Counted anew on each try: between two, while this one syncs, others lock and unlock.
        let refCount = keepingLocks ? max(askedRefCount, displaced?.header?.refCount ?? 0) : askedRefCount
        if refCount != header.refCount {
          header.refCount = refCount
          try header.withEncodedBytes { head throws(FileError) in try temporary.file.write(head, at: 0) }
          isSynced = false
        }
        let concernsLock = header.isLocked || displaced?.header?.isLocked ?? false
        let needed = configuration.durability.level(concernsLock: concernsLock)
        if let place = temporary.recycled, needed > .none || header.isLocked || !place.isStillSafe {
          throw NotToBeRecycled()
        }
        guard needed == .none || (isSynced && needed <= level) else { return .mustSync(needed) }
        let counted = try hold.counting(
          from: displaced.map { RecordSize(bytes: $0.byteCount, isLocked: $0.header?.isLocked ?? false) },
          to: RecordSize(bytes: byteCount, isLocked: header.isLocked), within: keeper?.limit
        ) {
          try hold.changingPayload(needed) { try publish(&temporary, as: path.fileName, displaced, needed, of: root) }
          return true
        }
        switch counted {
        case .mustWait(let usage): return .mustWait(usage)
        case .done(let usage): return .done(needed, exceeding: usage, generation: hold.generation)
        case .notPublished: return .done(needed, exceeding: nil, generation: nil)
        }
      }
      switch publication {
      case .mustSync(let needed):
        level = needed
        isSynced = false
      case .mustWait(let usage):
        try keeper?.waitForRoom(&wait, usage, for: Self.fileByteCount(header))
      case .done(let reached, let usage, let generation):
        if let usage { keeper?.start(usage) }
        if reached == .full {
          try temporary.directory.synchronize()
          if !path.subdirectory.isEmpty { try root.directory.synchronize() }
        }
        return StoreReceipt(header: header, generation: generation)
      }
    }
  }

  /// Whether a file may take its name, if that is free, before anybody has looked whether it is.
  ///
  /// To look where there is nothing is a call too many, and so is to try where there is something. A new file tries; a
  /// recycled one does what would have been right for the last store. But once it has tried, nobody may write to a recycled
  /// file, as who keeps locks may have to.
  private func mayTryWithoutLooking(_ temporary: borrowing TemporaryFile, keepingLocks: Bool) -> Bool {
    guard let place = temporary.recycled else { return true }
    return !keepingLocks && !lastStoreReplaced.load(ordering: .relaxed) && place.isStillSafe
  }

  /// Puts a record in its place under its stripe, and what it displaces where it belongs.
  private func publish(
    _ temporary: inout TemporaryFile, as fileName: String, _ displaced: Displaced?, _ level: Durability.Level,
    of root: RootDirectory.Opened
  ) throws {
    guard let displaced else { return try temporary.publishRecycledIfAbsent(as: fileName) }
    guard let room = roomInBin(for: displaced.file, level, of: root) else { return try temporary.publish(as: fileName) }
    if let failure = try temporary.publish(as: fileName, keepingDisplacedIn: room) { noteFailure(failure, of: root) }
  }

  /// A record that is about to be replaced.
  private struct Displaced {
    var byteCount: Int64
    var hasOtherNames: Bool
    /// nil if it is damaged: then it tells of no locks.
    var header: RecordHeader?

    var file: DisplacedFile {
      DisplacedFile(byteCount: byteCount, header: header, hasOtherNames: hasOtherNames)
    }
  }

  /// - Returns: nil if there is no record.
  /// - Throws: `foreignFile` if what lies there is none of ours, and so not to be replaced.
  private func recordToDisplace(
    at path: RecordPath, in directory: borrowing Directory, of root: RootDirectory.Opened
  ) throws -> Displaced? {
    switch try directory.openFile(path.fileName, for: .read) {
    case .absent: return nil
    case .regular(let file, let status):
      guard root.owns(status) else { break }
      var displaced = Displaced(byteCount: status.size, hasOtherNames: status.linkCount > 1)
      if case .success(let stored) = try file.readHeader() {
        // A damaged header tells of no locks.
        displaced.header = try? stored.validated()
      }
      return displaced
    case .notRegular: break
    }
    throw BlobStoreError(
      .foreignFile, "what lies where the record belongs is no file of this cache's, and is left alone",
      path: directory.path.appending(path.fileName))
  }
}

/// A record was written to a recycled file, and gets a new one, which was not known before: it must be on the medium before
/// it takes its place, because the one that it replaces is locked; or what the file held before must not come back with a
/// power cut any more.
private struct NotToBeRecycled: Error {}

extension FileError {
  /// Whether a directory may not be changed.
  fileprivate var isRefusalOfARename: Bool {
    [.rename, .renameExchange, .renameNoReplace].contains(call) && [.permissionDenied, .notPermitted].contains(errno)
  }
}
