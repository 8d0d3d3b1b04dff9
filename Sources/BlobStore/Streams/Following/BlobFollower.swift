public import BlobRecord
internal import Posix
internal import SystemPackage

/// A blob that is read while it is written; see `BlobStore.openFollower`.
///
/// A follower keeps its file open, so a replacement or a removal does not affect it. All followers of a blob in a store
/// share one open file. A follower can be used from several threads concurrently.
public final class BlobFollower: Sendable {
  public let key: BlobKey
  /// The time that a read waits for the writer.
  public let timeout: Duration
  private let core: StoreCore
  private let path: RecordPath
  private let stream: FollowedStream
  /// `nil` for a blob that was complete when it was opened.
  private let identity: FileIdentity?

  init(
    _ core: StoreCore, key: BlobKey, path: RecordPath, _ stream: FollowedStream, _ identity: FileIdentity?,
    timeout: Duration
  ) {
    self.core = core
    self.key = key
    self.path = path
    self.stream = stream
    self.identity = identity
    self.timeout = timeout
  }

  deinit {
    if let identity { core.streams.leave(identity) }
  }

  /// The number of payload bytes that existed at the last check.
  public var byteCount: Int64 { stream.progress.byteCount }
  /// The record's header, or `nil` until the blob is known to be complete.
  public var header: RecordHeader? { stream.progress.header }
  /// The blob's extended data, or `nil` if the blob has no extended data or is not known to be complete.
  public var extendedData: Data? { stream.progress.extension?.extendedData }
}

// MARK: - Reading

extension BlobFollower {
  /// Reads the payload from an offset into the caller's memory, and waits until there are bytes.
  ///
  /// The checksum is not verified.
  ///
  /// - Returns: The number of bytes that were read, or 0 if the complete payload ends at the offset.
  /// - Throws: `streamStalled` if no bytes arrived for `timeout`; `streamBroken` if the writer has discarded the blob
  ///   or died; `invalidRange` for an offset below 0 or after the complete payload; `damaged`; `fileSystem`.
  /// - Complexity: O(*n*) for *n* bytes; one system call if the bytes exist.
  public func read(at offset: Int64, into bytes: inout MutableRawSpan) throws(BlobStoreError) -> Int {
    try unsafe bytes.withUnsafeMutableBytes { buffer throws(BlobStoreError) in
      try withErrorContext("load", key) {
        try unsafe fill(buffer, from: offset, try awaited(beyond: offset))
      }
    }
  }

  /// Calls a closure with the pieces of the payload, in order, as they arrive.
  ///
  /// This method returns after the complete blob was read and its checksum verified. Until then, no piece is known to
  /// be sound.
  ///
  /// - Parameters:
  ///   - pieceSize: The maximum size of a piece in bytes, above 0.
  ///   - body: A closure that receives each piece, which is valid only during the call.
  /// - Returns: The header of the record.
  /// - Throws: Any error of `body`, unchanged; otherwise, the errors of `read`; `damaged` if the checksum is wrong,
  ///   after `damagePolicy` was applied.
  /// - Complexity: O(*n*) for *n* bytes, and the memory of one piece.
  @discardableResult
  public func forEachPiece(pieceSize: Int = 256 << 10, _ body: (RawSpan) throws -> Void) throws -> RecordHeader {
    precondition(pieceSize > 0, "pieces of \(pieceSize) bytes")
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: pieceSize, alignment: 16)
    defer { unsafe buffer.deallocate() }
    var pieces = FollowedPieces(self)
    while true {
      let count = try withErrorContext("load", key) {
        try unsafe pieces.next(into: buffer, try awaited(beyond: pieces.offset))
      }
      if count == 0, let header { return header }
      try body(unsafe RawSpan(_unsafeBytes: UnsafeRawBufferPointer(rebasing: buffer[..<count])))
    }
  }

  /// Blocks the caller's thread until there are bytes.
  private func awaited(beyond offset: Int64) throws -> FollowedProgress {
    let answer = Monitor<FollowedStream.Answer?>(nil)
    _ = whenReady(beyond: offset) { found in answer.change { $0 = found } }
    return try answer.wait { found in found.map { .done($0) } ?? .wait(nil) }.get()
  }

  /// Calls a closure once: when bytes exist after an offset, the blob is complete or broken, or the timeout has
  /// passed. Returns a number for `leave`, or `nil` if the closure was already called.
  package func whenReady(
    beyond offset: Int64, _ call: @escaping @Sendable (Result<FollowedProgress, any Error>) -> Void
  ) -> UInt64? {
    let number = stream.wait(beyond: offset, atMost: timeout) { [key] answer in
      call(answer.mapError { $0 is CancellationError ? $0 : BlobStoreError($0, operation: "load", key: key) })
    }
    guard let number else { return nil }
    // A blob without an identity is complete, and nothing waits for it.
    if let identity { core.streams.watch(identity) }
    return number
  }

  /// Reads available bytes, given the result of a wait for bytes after the offset. Returns no bytes at the end.
  package func read(
    at offset: Int64, atMost count: Int, _ progress: FollowedProgress
  ) throws(BlobStoreError) -> Data {
    try withErrorContext("load", key) {
      try check(offset, progress)
      let count = Int(min(Int64(count), progress.byteCount - offset))
      guard count > 0 else { return Data() }
      guard let buffer = PayloadBuffer(byteCount: count) else {
        throw FileError(.read, stream.record.file.location, .noMemory)
      }
      _ = try unsafe fill(buffer.bytes, from: offset, progress)
      return buffer.take()
    }
  }

  package func leave(_ number: UInt64, _ error: any Error) { stream.leave(number, error) }

  /// Reads available bytes. Returns their number, or 0 at the end of the payload.
  func fill(
    _ buffer: UnsafeMutableRawBufferPointer, from offset: Int64, _ progress: FollowedProgress
  ) throws -> Int {
    try check(offset, progress)
    let wanted = Int(min(Int64(buffer.count), progress.byteCount - offset))
    let piece = unsafe UnsafeMutableRawBufferPointer(rebasing: buffer[..<wanted])
    let count = try unsafe stream.record.file.read(into: piece, at: Int64(RecordHeader.byteCount) + offset)
    // Fewer bytes than at the last check mean that another program has truncated the file.
    guard count == wanted else {
      throw DamagedRecord(
        error: .wrongPayloadSize(stated: UInt64(progress.byteCount), found: offset + Int64(count)), path: file)
    }
    return count
  }

  private func check(_ offset: Int64, _ progress: FollowedProgress) throws {
    guard offset >= 0, offset <= progress.byteCount else {
      throw BlobStoreError(
        .invalidRange, "the offset \(offset) does not lie within a payload of \(progress.byteCount) bytes", path: file)
    }
  }

  /// Checks a complete blob by the computed checksum of its payload.
  func judge(_ progress: FollowedProgress, computed: UInt32) throws {
    var error = progress.breach
    if let stated = progress.header?.payloadChecksum, computed != stated {
      error = .payloadChecksumMismatch(stated: stated, computed: computed)
    }
    guard let error else { return }
    try Records(core).follow(core.configuration.damagePolicy, for: error, at: path)
    throw DamagedRecord(error: error, path: file)
  }

  private var file: FilePath { core.root.path.appending(path.relative) }
}

extension BlobStore {
  /// Opens the blob of a key, if it is live or being written, for reads that wait for missing bytes.
  ///
  /// A blob that is being written has a writer with `visibility: .whileWriting`, in this process or in another one. A
  /// complete blob is opened as `openReader` does, and is read without waiting.
  ///
  /// System calls: openat2, fstat, pread; for a stream also flock, fstat, pread, flock.
  ///
  /// - Parameters:
  ///   - key: The key of the record.
  ///   - timeout: The time that each read waits for another byte.
  ///   - touching: A Boolean value that indicates whether to advance the update time of a complete record.
  /// - Returns: A follower, or `nil` if no record exists, or it is expired and not locked.
  /// - Throws: `damaged`, also for a stream whose writer has died; `fileSystem`, `invalidKey`.
  /// - Complexity: O(1).
  public func openFollower(
    for key: BlobKey, timeout: Duration = .seconds(30), touching: Bool = true
  ) throws(BlobStoreError) -> BlobFollower? {
    try withErrorContext("load", key) {
      var path = try core.path(for: key)
      let now = core.configuration.now()
      // The directory that was read, in which the load is counted.
      var place: OpenRoot?
      let lookup = FollowedLookup(path: path, now: now)
      let found = try Records(core).readUntilConsistent(lookup, core.configuration.damagePolicy, &place)
      if let place { path = place.placed(path) }
      guard let (header, found) = found else {
        core.uses.count(.miss, of: path.digest, isUse: touching, at: now, in: place)
        return nil
      }
      let stream = core.streams.follow(found, header)
      core.uses.count(
        .hit(byteCount: Int(clamping: stream.progress.byteCount)), of: path.digest, isUse: touching, at: now, in: place)
      if touching, header.ttl == 0, header.lastUpdate < now { _ = Records(core).touchAfterLoad(path, now) }
      return BlobFollower(core, key: key, path: path, stream, found.stream, timeout: timeout)
    }
  }
}

/// An iteration over a growing payload, piece by piece. It ends only after the checksum was verified.
package struct FollowedPieces: Sendable {
  private let follower: BlobFollower
  package private(set) var offset: Int64 = 0
  private var checksum = CRC32()

  package init(_ follower: BlobFollower) { self.follower = follower }

  /// Reads available bytes, given the result of a wait for bytes after `offset`. Returns their number, or 0 at the
  /// end.
  package mutating func next(into buffer: UnsafeMutableRawBufferPointer, _ progress: FollowedProgress) throws -> Int {
    let count = try unsafe follower.fill(buffer, from: offset, progress)
    offset += Int64(count)
    checksum.update(unsafe RawSpan(_unsafeBytes: UnsafeRawBufferPointer(rebasing: buffer[..<count])))
    if count == 0 { try follower.judge(progress, computed: checksum.value) }
    return count
  }

  /// Reads at most `pieceSize` available bytes, given the result of a wait. Returns no bytes at the end.
  package mutating func next(atMost pieceSize: Int, _ progress: FollowedProgress) throws -> Data {
    precondition(pieceSize > 0, "pieces of \(pieceSize) bytes")
    let piece = try follower.read(at: offset, atMost: pieceSize, progress)
    offset += Int64(piece.count)
    checksum.update(piece.bytes)
    if piece.isEmpty {
      try withErrorContext("load", follower.key) { try follower.judge(progress, computed: checksum.value) }
    }
    return piece
  }

  /// Calls a closure with the next piece, unless the payload has ended, and returns the size of the piece, which is
  /// valid only during the call.
  package mutating func withNext(
    atMost pieceSize: Int, _ progress: FollowedProgress, _ body: (RawSpan) throws -> Void
  ) throws -> Int {
    precondition(pieceSize > 0, "pieces of \(pieceSize) bytes")
    let size = Int(max(1, min(Int64(pieceSize), progress.byteCount - offset)))
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: size, alignment: 16)
    defer { unsafe buffer.deallocate() }
    let count = try withErrorContext("load", follower.key) { try unsafe next(into: buffer, progress) }
    if count > 0 { try body(unsafe RawSpan(_unsafeBytes: UnsafeRawBufferPointer(rebasing: buffer[..<count]))) }
    return count
  }
}
