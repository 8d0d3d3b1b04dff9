public import BlobRecord
package import Posix
public import SystemPackage

extension BlobStore {
  /// Stores a payload from a descriptor, which is read to its end in pieces of 256 KiB.
  ///
  /// The payload is never completely in memory. A regular file is read from the descriptor's offset. A pipe, a socket
  /// or a terminal is stored with a `BlobWriter`, and this method waits for its bytes.
  ///
  /// - Parameters:
  ///   - input: The descriptor, which stays open.
  ///   - key: The key of the record.
  ///   - ttl: The time to live, like for `store`.
  ///   - locks: The locks of the new record, like for `store`.
  ///   - extendedData: The extended data, like for `store`.
  ///   - expectedSize: The payload's size in bytes, if known. Input of another size is not stored.
  ///   - visibility: The visibility of the blob. With `whileWriting`, the blob is published immediately, and followers
  ///     read it while it grows.
  /// - Returns: The payload's size in bytes.
  /// - Throws: The errors of `store`; `sizeMismatch`; with `whileWriting`, the errors of `BlobWriter.commit`.
  @discardableResult
  public func store(
    contentsOf input: FileDescriptor, for key: BlobKey, ttl: Duration? = nil, locks: LockPolicy = .none,
    extendedData: Data? = nil, expectedSize: Int64? = nil, visibility: Visibility = .afterCommit
  ) throws(BlobStoreError) -> Int64 {
    try store(
      PayloadSource(input, files: core.root.files), for: key, ttl: ttl, locks: locks, extendedData: extendedData,
      expectedSize: expectedSize, visibility: visibility)
  }

  /// Stores the contents of a file in the same way.
  ///
  /// The bytes are copied even if the file is moved. A record has a header before its payload, so a file can neither
  /// become a record by a rename nor share its blocks.
  ///
  /// - Parameters:
  ///   - path: The path of the file; links are followed.
  ///   - key: The key of the record.
  ///   - ttl: The time to live, like for `store`.
  ///   - locks: The locks of the new record, like for `store`.
  ///   - extendedData: The extended data, like for `store`.
  ///   - expectedSize: The payload's size in bytes, if known. A file of another size is not stored.
  ///   - visibility: The visibility of the blob. With `whileWriting`, the blob is published immediately, and followers
  ///     read it while it grows.
  ///   - moving: A Boolean value that indicates whether to remove the file after its blob is published. It is not
  ///     removed if it is not regular, if the path is a link, or if it was changed in the meantime. With durability
  ///     `full`, or `automatic` and locks, the blob is synced first; otherwise, a power failure may destroy both.
  /// - Returns: The payload's size in bytes.
  /// - Throws: The errors of `store`; `sizeMismatch`; with `whileWriting`, the errors of `BlobWriter.commit`. If the
  ///   file cannot be removed, `fileSystem`, with the blob published.
  @discardableResult
  public func store(
    contentsOf path: FilePath, for key: BlobKey, ttl: Duration? = nil, locks: LockPolicy = .none,
    extendedData: Data? = nil, expectedSize: Int64? = nil, visibility: Visibility = .afterCommit, moving: Bool = false
  ) throws(BlobStoreError) -> Int64 {
    let source = try payloadSource(at: path, for: key, waits: true)
    let byteCount = try store(
      source, for: key, ttl: ttl, locks: locks, extendedData: extendedData, expectedSize: expectedSize,
      visibility: visibility)
    if moving { try source.removeFile(storedAs: key) }
    return byteCount
  }

  /// Opens the source of a payload. If `waits`, it waits for a writer of a pipe, and reads wait for bytes.
  package func payloadSource(at path: FilePath, for key: BlobKey, waits: Bool) throws(BlobStoreError) -> PayloadSource {
    try withErrorContext("store", key) { try PayloadSource(opening: path, files: core.root.files, waits: waits) }
  }

  package func payloadSource(of descriptor: FileDescriptor) -> PayloadSource {
    PayloadSource(descriptor, files: core.root.files)
  }

  package func readinessWatch() -> ReadinessWatch { ReadinessWatch(files: core.root.files) }

  /// Stores the contents of a source, like `store(contentsOf:)`. `progress` receives the size of each written piece.
  package func store(
    _ source: PayloadSource, for key: BlobKey, ttl: Duration?, locks: LockPolicy, extendedData: Data?,
    expectedSize: Int64?, visibility: Visibility = .afterCommit, progress: (Int) -> Void = { _ in }
  ) throws(BlobStoreError) -> Int64 {
    let header: RecordHeader
    // A payload that may be packed requires a writer, which packs it if it stays small.
    if visibility == .afterCommit, let start = source.start, !Records(core).mayPack(payloadOf: source.byteCount) {
      header = try withErrorContext("store", key) {
        try publisher.publish(
          key, source, from: start, extendedData, ttl: ttl, locks: locks, expectedSize: expectedSize, progress)
      }
    } else {
      // A payload that is known to be too large is refused before anything is created for it.
      if source.start != nil { try withErrorContext("store", key) { try Records(core).checkSize(source.byteCount) } }
      var writer = try openWriter(
        for: key, ttl: ttl, locks: locks, expectedSize: expectedSize, extendedData: extendedData,
        visibility: visibility)
      try writer.append(from: source, waiting: true, progress)
      header = try writer.commit()
    }
    return Int64(clamping: header.payloadSize)
  }
}

extension BlobWriter {
  /// Appends the contents of a source.
  ///
  /// Without `waiting`, the call is limited to a mebibyte or 64 reads, because other work waits for the thread. After
  /// a small read it does not wait for further bytes. After a larger read it waits for two milliseconds, because a
  /// source of that speed is worth the thread.
  ///
  /// - Parameters:
  ///   - source: A pipe, a socket or a terminal.
  ///   - waiting: A Boolean value that indicates whether to wait for bytes until the source ends.
  ///   - progress: A closure that receives the size of each written piece.
  /// - Returns: A Boolean value that indicates whether the source has ended.
  @discardableResult
  package mutating func append(
    from source: PayloadSource, waiting: Bool, _ progress: (Int) -> Void = { _ in }
  ) throws(BlobStoreError) -> Bool {
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: StoreCore.pieceByteCount, alignment: 16)
    defer { unsafe buffer.deallocate() }
    var (total, reads, patience) = (0, 0, CInt(0))
    while waiting || (total < 1 << 20 && reads < 64 && source.isReady(withinMilliseconds: patience)) {
      let count = try withErrorContext("store", key) { try unsafe source.read(into: buffer) }
      if count == 0 { return true }
      try append(unsafe RawSpan(_unsafeBytes: buffer[..<count]))
      progress(count)
      total += count
      reads += 1
      patience = count >= Self.leastWorthWaitingFor ? 2 : 0
    }
    return false
  }

  /// The minimum size of a read after which a source counts as fast.
  private static var leastWorthWaitingFor: Int { 4096 }
}

extension Publisher {
  /// Stores a file, which is read again if the record must be written again.
  fileprivate func publish(
    _ key: BlobKey, _ source: PayloadSource, from start: Int64, _ extendedData: Data?, ttl: Duration?,
    locks: BlobStore.LockPolicy,
    expectedSize: Int64?, _ progress: (Int) -> Void
  ) throws -> RecordHeader {
    // A payload that is known to be too large is refused before anything is created for it.
    try Records(core).checkSize(max(source.byteCount, expectedSize ?? 0))
    let header = try newHeader(ttl: ttl, locks: locks)
    let path = try core.path(for: key)
    let expected = try ExpectedSize(expectedSize)
    return try unsafe publish(
      key, pendingStore(header, locks: locks, if: nil), extendedData: extendedData,
      DraftAttempts(mayRecycle: false, canWriteAgain: true)
    ) { file, header in
      try source.rewind(to: start)
      try reserve(source.byteCount, in: file, of: path.digest)
      try copyPayload(from: source, to: file, of: path.digest, header: &header, expected, progress)
      // If the file has become shorter, the blocks after the end are released.
      if Int64(clamping: header.payloadSize) < source.byteCount { try file.truncate(to: header.fileByteCount) }
      // Reading the payload may have taken a long time.
      header.updateTime = UInt64(clamping: core.configuration.now().seconds)
      try header.withEncodedBytes { head throws(FileError) in try file.write(head, at: 0) }
    }.header
  }

  /// Reserves the blocks of a large payload, which reports a full volume early and makes writing a quarter faster.
  private func reserve(_ byteCount: Int64, in file: borrowing OpenFile, of digest: UInt64) throws {
    guard byteCount > Self.unreservedByteCount else { return }
    let byteCount = byteCount + Int64(RecordHeader.byteCount)
    try makingRoom(for: byteCount, of: digest) { try file.reserve(byteCount: byteCount) }
  }

  /// The largest payload of a file for which reserving blocks is not worth a system call.
  private static var unreservedByteCount: Int64 { 1 << 20 }

  private func copyPayload(
    from source: PayloadSource, to file: borrowing OpenFile, of digest: UInt64, header: inout RecordHeader,
    _ expected: ExpectedSize, _ progress: (Int) -> Void
  ) throws {
    var checksum = CRC32()
    var byteCount: Int64 = 0
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: StoreCore.pieceByteCount, alignment: 16)
    defer { unsafe buffer.deallocate() }
    while case let count = try unsafe source.read(into: buffer), count > 0 {
      let total = byteCount + Int64(count)
      try expected.checkGrowth(to: total, in: core)
      let piece = unsafe RawSpan(_unsafeBytes: buffer[..<count])
      if core.configuration.format == .checksummed { checksum.update(piece) }
      let offset = Int64(RecordHeader.byteCount) + byteCount
      try makingRoom(for: Int64(count), of: digest) { try file.write(piece, at: offset) }
      byteCount = total
      progress(count)
    }
    try expected.checkEnd(at: byteCount)
    header.payloadSize = UInt64(byteCount)
    if core.configuration.format == .checksummed { header.payloadChecksum = checksum.value }
  }
}
