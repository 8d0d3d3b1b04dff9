public import BlobRecord
internal import Posix
public import SystemPackage

#if canImport(FoundationEssentials)
  public import FoundationEssentials
#else
  public import Foundation
#endif

extension BlobStore {
  /// Stores a blob, in the place of the one that the key had.
  ///
  /// Readers see the old blob or the new one, whole. A store that throws leaves the old one as it was. The exception is
  /// a sync that fails after the change: the new one is in place then, but may not be on the medium.
  ///
  /// System calls: Spec/Performance.md 1.
  ///
  /// - Parameters:
  ///   - payload: the bytes.
  ///   - key: the key of the record.
  ///   - ttl: the time to live, rounded up to whole seconds; nil for the default expiration, counted from last access.
  ///   - locks: the locks of the new record: none, one, or those of the old one.
  ///   - extendedData: what lies beside the payload, such as a content type: at most 4 KiB. Those of the old record go
  ///     with it.
  /// - Throws: `invalidKey`, `invalidTimeToLive`, `payloadTooLarge`, `extendedDataTooLarge`, `extendedDataRefused`,
  ///   `foreignFile`, `fileSystem`.
  public func store(
    _ payload: Data, for key: BlobKey, ttl: Duration? = nil, locks: LockPolicy = .none,
    extendedData: Data? = nil
  ) throws(BlobStoreError) {
    try store(payload.bytes, for: key, ttl: ttl, locks: locks, extendedData: extendedData)
  }

  /// Stores bytes that lie somewhere in memory, without a copy of them.
  public func store(
    _ payload: RawSpan, for key: BlobKey, ttl: Duration? = nil, locks: LockPolicy = .none,
    extendedData: Data? = nil
  ) throws(BlobStoreError) {
    try withErrorContext("store", key) {
      _ = try publisher.publish(payload, extendedData, for: key, ttl: ttl, locks: locks, if: nil)
    }
  }

  /// Stores a blob, and tells what lies on disk now.
  ///
  /// - Parameter condition: must hold at the moment in which the record would take its place.
  /// - Returns: nil if it does not, and nothing was stored.
  package func storeWithReceipt(
    _ payload: RawSpan, _ extendedData: Data?, for key: BlobKey, ttl: Duration?, locks: LockPolicy,
    if condition: StoreCondition?
  ) throws(BlobStoreError) -> StoreReceipt? {
    try withErrorContext("store", key) {
      do {
        return try publisher.publish(
          payload, extendedData, for: key, ttl: ttl, locks: locks, if: condition)
      } catch is ConditionFailed {
        return nil
      }
    }
  }

  /// Stores a payload from a descriptor, read to its end in pieces of 256 KiB.
  ///
  /// The payload is never in memory as a whole.
  ///
  /// - Returns: the payload's size in bytes.
  @discardableResult
  public func store(
    contentsOf input: FileDescriptor, for key: BlobKey, ttl: Duration? = nil, locks: LockPolicy = .none,
    extendedData: Data? = nil
  ) throws(BlobStoreError) -> Int64 {
    try withErrorContext("store", key) {
      let input = Publisher.Input(descriptor: input, path: nil, files: core.root.files)
      return try publisher.publish(key, input, extendedData, ttl: ttl, locks: locks)
    }
  }

  /// Stores what a file holds, in the same way.
  ///
  /// - Returns: the payload's size in bytes.
  @discardableResult
  public func store(
    contentsOf path: FilePath, for key: BlobKey, ttl: Duration? = nil, locks: LockPolicy = .none,
    extendedData: Data? = nil
  ) throws(BlobStoreError) -> Int64 {
    try withErrorContext("store", key) {
      let input: FileDescriptor
      do {
        input = try FileDescriptor.open(path, .readOnly, options: .closeOnExec)
      } catch let error as Errno {
        throw FileError(.open, Location(path), error)
      }
      // Nothing was written through it, so closing it loses nothing.
      defer { try? input.close() }
      return try publisher.publish(
        key, Publisher.Input(descriptor: input, path: path, files: core.root.files), extendedData, ttl: ttl,
        locks: locks)
    }
  }
}

// MARK: - Preparing

extension BlobStore {
  var publisher: Publisher { Publisher(core: core, keeper: keeper) }
}

extension Publisher {
  /// Writes a record of bytes in memory, and puts it in its place.
  fileprivate func publish(
    _ payload: RawSpan, _ extendedData: Data?, for key: BlobKey, ttl: Duration?, locks: BlobStore.LockPolicy,
    if condition: StoreCondition?
  ) throws -> StoreReceipt {
    let bytes = payload
    try core.checkSize(Int64(bytes.byteCount))
    var header = try newHeader(ttl: ttl, locks: locks)
    header.payloadSize = UInt64(bytes.byteCount)
    if core.configuration.format == .checksummed { header.payloadChecksum = CRC32.checksum(of: bytes) }
    return try publish(
      key, header, extendedData: extendedData, locks: locks, mayRecycle: true, canWriteAgain: true, if: condition
    ) { file, header in
      try header.withEncodedBytes { head throws(FileError) in try file.write(head, bytes) }
    }
  }

  /// The header of a record that is stored now, without the fields that the payload decides.
  func newHeader(ttl: Duration?, locks: BlobStore.LockPolicy) throws -> RecordHeader {
    RecordHeader(
      refCount: locks.refCount(replacing: 0), ttl: try storedTimeToLive(ttl),
      updateTime: UInt64(clamping: core.configuration.now().seconds), payloadSize: 0)
  }

  /// Where a payload that is read in pieces comes from.
  fileprivate struct Input {
    let descriptor: FileDescriptor
    /// Its name in errors; nil if it has none.
    let path: FilePath?
    let files: Files
    /// Where reading begins, in a file that can be read again; nil for pipes, terminals and the like.
    private let start: Int64?
    /// Bytes that can be read, as far as known before.
    let byteCount: Int64

    init(descriptor: FileDescriptor, path: FilePath?, files: Files) {
      self.descriptor = descriptor
      self.path = path
      self.files = files
      let size = Files.sizeOfRegularFile(descriptor)
      // Where there is no offset, it is read once.
      start = size == nil ? nil : try? descriptor.seek(offset: 0, from: .current)
      byteCount = max(0, (size ?? 0) - (start ?? 0))
    }

    var canBeReadAgain: Bool { start != nil }

    /// Goes back to where reading began.
    func rewind() throws(BlobStoreError) {
      guard let start else { return }
      do {
        try descriptor.seek(offset: start, from: .start)
      } catch {
        throw failure("lseek(2)", error)
      }
    }

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

  fileprivate func publish(
    _ key: BlobKey, _ input: Input, _ extendedData: Data?, ttl: Duration?, locks: BlobStore.LockPolicy
  ) throws -> Int64 {
    let header = try newHeader(ttl: ttl, locks: locks)
    let path = try core.path(for: key)
    // A payload that is known to be too large is refused before anything is made for it.
    try core.checkSize(input.byteCount)
    let receipt = try publish(
      key, header, extendedData: extendedData, locks: locks, mayRecycle: false, canWriteAgain: input.canBeReadAgain
    ) { file, header in
      try input.rewind()
      try reserve(input.byteCount, in: file, of: path.digest)
      try copyPayload(from: input, to: file, of: path.digest, header: &header)
      // The input may have become shorter: blocks behind the end are given back.
      if Int64(clamping: header.payloadSize) < input.byteCount { try file.truncate(to: header.fileByteCount) }
      // The input may have been a while in coming.
      header.updateTime = UInt64(clamping: core.configuration.now().seconds)
      try header.withEncodedBytes { head throws(FileError) in try file.write(head, at: 0) }
    }
    return Int64(clamping: receipt.header.payloadSize)
  }

  /// Sets the blocks of a large payload aside. Writing it takes a quarter less time then, and a full volume shows before.
  private func reserve(_ byteCount: Int64, in file: borrowing OpenFile, of digest: UInt64) throws {
    guard byteCount > Self.unreservedByteCount else { return }
    let byteCount = byteCount + Int64(RecordHeader.byteCount)
    try makingRoom(for: byteCount, of: digest) { try file.reserve(byteCount: byteCount) }
  }

  /// The largest payload of a file that one call more would not be worth.
  private static var unreservedByteCount: Int64 { 1 << 20 }

  private func copyPayload(
    from input: Input, to file: borrowing OpenFile, of digest: UInt64, header: inout RecordHeader
  ) throws {
    var checksum = CRC32()
    var byteCount: Int64 = 0
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: StoreCore.pieceByteCount, alignment: 16)
    defer { unsafe buffer.deallocate() }
    while true {
      let count = try unsafe input.read(into: buffer)
      if count == 0 { break }
      try core.checkSize(byteCount + Int64(count))
      let piece = unsafe RawSpan(_unsafeBytes: buffer[..<count])
      if core.configuration.format == .checksummed { checksum.update(piece) }
      let offset = Int64(RecordHeader.byteCount) + byteCount
      // Bytes from a pipe cannot be read again; so the write makes room, and is tried again.
      try makingRoom(for: Int64(count), of: digest) { try file.write(piece, at: offset) }
      byteCount += Int64(count)
    }
    header.payloadSize = UInt64(byteCount)
    if core.configuration.format == .checksummed { header.payloadChecksum = checksum.value }
  }
}

extension StoreCore {
  /// No file is longer than 2^63-1 bytes.
  private static let largestPayload = Int64.max - Int64(RecordHeader.byteCount)

  func checkSize(_ byteCount: Int64) throws(BlobStoreError) {
    guard byteCount <= configuration.limits.payload else {
      throw BlobStoreError(
        .payloadTooLarge,
        "a payload of at least \(byteCount) bytes is larger than the maximum of \(configuration.limits.payload)")
    }
    guard byteCount <= Self.largestPayload else {
      throw BlobStoreError(
        .payloadTooLarge, "no file holds a payload of \(byteCount) bytes: at most \(Self.largestPayload)")
    }
    if let limit = configuration.limits.size, byteCount > limit - Int64(RecordHeader.byteCount) {
      throw BlobStoreError(
        .payloadTooLarge,
        "a payload of at least \(byteCount) bytes does not fit into the size limit of \(limit)")
    }
  }
}
