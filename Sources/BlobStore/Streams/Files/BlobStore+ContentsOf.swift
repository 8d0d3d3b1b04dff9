public import BlobRecord
package import Posix
public import SystemPackage

extension BlobStore {
  /// Stores a payload from a descriptor, read to its end in pieces of 256 KiB.
  ///
  /// The payload is never in memory as a whole. A regular file is read from the descriptor's offset. A pipe, a socket or a
  /// terminal goes through a `BlobWriter`, and this waits for its bytes.
  ///
  /// - Parameters:
  ///   - input: stays open.
  ///   - key: the key of the record.
  ///   - ttl: the time to live; as for `store`.
  ///   - locks: the locks of the new record; as for `store`.
  ///   - extendedData: what lies beside the payload; as for `store`.
  ///   - expectedSize: the payload's size in bytes, where it is known. Input of another size is not stored.
  ///   - visibility: `whileWriting` puts the blob in its place at once, and followers read it while it grows.
  /// - Returns: the payload's size in bytes.
  /// - Throws: as `store`; `sizeMismatch`; with `whileWriting`, as `BlobWriter.commit`.
  @discardableResult
  public func store(
    contentsOf input: FileDescriptor, for key: BlobKey, ttl: Duration? = nil, locks: LockPolicy = .none,
    extendedData: Data? = nil, expectedSize: Int64? = nil, visibility: Visibility = .afterCommit
  ) throws(BlobStoreError) -> Int64 {
    try store(
      PayloadSource(input, files: core.root.files), for: key, ttl: ttl, locks: locks, extendedData: extendedData,
      expectedSize: expectedSize, visibility: visibility)
  }

  /// Stores what a file holds, in the same way.
  ///
  /// The bytes are copied, also where the file is moved: a record has a header before its payload, so a file cannot become
  /// one by a rename, nor share its blocks.
  ///
  /// - Parameters:
  ///   - path: the file's; links are followed.
  ///   - key: the key of the record.
  ///   - ttl: the time to live; as for `store`.
  ///   - locks: the locks of the new record; as for `store`.
  ///   - extendedData: what lies beside the payload; as for `store`.
  ///   - expectedSize: the payload's size in bytes, where it is known. A file of another size is not stored.
  ///   - visibility: `whileWriting` puts the blob in its place at once, and followers read it while it grows.
  ///   - moving: whether the file is removed once its blob is in place. It stays if it is not regular, if the path is a
  ///     link, or if it was written to meanwhile. With durability `full`, or `automatic` and locks, the blob is on the
  ///     medium before; with less, a power cut may take both.
  /// - Returns: the payload's size in bytes.
  /// - Throws: as `store`; `sizeMismatch`; with `whileWriting`, as `BlobWriter.commit`. If the file cannot be removed,
  ///   `fileSystem` with the blob in place.
  @discardableResult
  public func store(
    contentsOf path: FilePath, for key: BlobKey, ttl: Duration? = nil, locks: LockPolicy = .none,
    extendedData: Data? = nil, expectedSize: Int64? = nil, visibility: Visibility = .afterCommit, moving: Bool = false
  ) throws(BlobStoreError) -> Int64 {
    let source = try payloadSource(at: path, for: key, waits: true)
    return try store(
      source, for: key, ttl: ttl, locks: locks, extendedData: extendedData, expectedSize: expectedSize,
      visibility: visibility, moving: moving)
  }

  /// Opens what a payload is to be read from.
  ///
  /// - Parameters:
  ///   - path: where it lies.
  ///   - key: what errors name.
  ///   - waits: whether to wait for a writer of a pipe, and for bytes in each read.
  package func payloadSource(at path: FilePath, for key: BlobKey, waits: Bool) throws(BlobStoreError) -> PayloadSource {
    try withErrorContext("store", key) { try PayloadSource(opening: path, files: core.root.files, waits: waits) }
  }

  /// The source of a payload behind the caller's descriptor.
  package func payloadSource(of descriptor: FileDescriptor) -> PayloadSource {
    PayloadSource(descriptor, files: core.root.files)
  }

  /// Lets tasks wait for the bytes of sources.
  package func readinessWatch() -> ReadinessWatch { ReadinessWatch(files: core.root.files) }

  /// Stores what a source yields, until its end.
  ///
  /// - Parameters:
  ///   - source: is read from its beginning.
  ///   - key: the key of the record.
  ///   - ttl: the time to live; as for `store`.
  ///   - locks: the locks of the new record; as for `store`.
  ///   - extendedData: what lies beside the payload; as for `store`.
  ///   - expectedSize: the payload's size in bytes, where it is known.
  ///   - visibility: as for `openWriter`.
  ///   - moving: whether a file is removed in the end.
  ///   - progress: is told the bytes of each piece that is written.
  package func store(
    _ source: PayloadSource, for key: BlobKey, ttl: Duration?, locks: LockPolicy, extendedData: Data?,
    expectedSize: Int64?, visibility: Visibility = .afterCommit, moving: Bool = false,
    progress: (Int) -> Void = { _ in }
  ) throws(BlobStoreError) -> Int64 {
    let header: RecordHeader
    // What may be packed goes through a writer, which packs what has stayed small.
    if visibility == .afterCommit, let start = source.start, !core.mayPack(payloadOf: source.byteCount) {
      header = try withErrorContext("store", key) {
        try publisher.publish(
          key, source, from: start, extendedData, ttl: ttl, locks: locks, expectedSize: expectedSize, progress)
      }
    } else {
      // What is known to be too large is refused before anything is made for it.
      if source.start != nil { try withErrorContext("store", key) { try core.checkSize(source.byteCount) } }
      var writer = try openWriter(
        for: key, ttl: ttl, locks: locks, expectedSize: expectedSize, extendedData: extendedData,
        visibility: visibility)
      try writer.append(from: source, waiting: true, progress)
      header = try writer.commit()
    }
    if moving { try source.removeFile(storedAs: key) }
    return Int64(clamping: header.payloadSize)
  }
}

extension BlobWriter {
  /// Appends what a source yields.
  ///
  /// Without `waiting`, it is a turn of a thread that others wait for: a mebibyte or 64 reads at the most. After a read of
  /// few bytes it waits for none, and else for two milliseconds, as a source that is as fast as that is worth the thread.
  ///
  /// - Parameters:
  ///   - source: a pipe, a socket or a terminal.
  ///   - waiting: whether to wait for bytes until the source ends.
  ///   - progress: is told the bytes of each piece that is written.
  /// - Returns: whether the source has ended.
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

  /// Bytes of a read after which a source counts as fast.
  private static var leastWorthWaitingFor: Int { 4096 }
}

extension Publisher {
  /// Stores a file, which is read again where the record has to be written again.
  fileprivate func publish(
    _ key: BlobKey, _ source: PayloadSource, from start: Int64, _ extendedData: Data?, ttl: Duration?,
    locks: BlobStore.LockPolicy,
    expectedSize: Int64?, _ progress: (Int) -> Void
  ) throws -> RecordHeader {
    let header = try newHeader(ttl: ttl, locks: locks)
    let path = try core.path(for: key)
    let expected = try ExpectedSize(expectedSize)
    // A payload that is known to be too large is refused before anything is made for it.
    try core.checkSize(max(source.byteCount, expectedSize ?? 0))
    return try unsafe publish(
      key, pendingStore(header, locks: locks, if: nil), extendedData: extendedData,
      DraftAttempts(mayRecycle: false, canWriteAgain: true)
    ) { file, header in
      try source.rewind(to: start)
      try reserve(source.byteCount, in: file, of: path.digest)
      try copyPayload(from: source, to: file, of: path.digest, header: &header, expected, progress)
      // The file may have become shorter: blocks behind the end are given back.
      if Int64(clamping: header.payloadSize) < source.byteCount { try file.truncate(to: header.fileByteCount) }
      // It may have been a while in coming.
      header.updateTime = UInt64(clamping: core.configuration.now().seconds)
      try header.withEncodedBytes { head throws(FileError) in try file.write(head, at: 0) }
    }.header
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
