public import BlobRecord
internal import Posix
internal import SystemPackage

/// A blob that is read while it is written: `BlobStore.openFollower`.
///
/// It keeps its file open, and so its blob: a replacement or a removal takes nothing from it. All followers of a blob in
/// a store share one file. Its calls may be made on several threads at once.
public final class BlobFollower: Sendable {
  public let key: BlobKey
  /// How long a read waits for the writer.
  public let timeout: Duration
  private let core: StoreCore
  private let path: RecordPath
  private let stream: FollowedStream
  /// nil of a blob that was whole from the beginning.
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

  /// Bytes of payload that were there at the last look.
  public var byteCount: Int64 { stream.progress.byteCount }
  /// The record's header, once the blob is known to be whole; nil before.
  public var header: RecordHeader? { stream.progress.header }
  /// What lies beside the payload, once the blob is known to be whole; nil before, and for nothing.
  public var extendedData: Data? { stream.progress.extension?.extendedData }
}

// MARK: - Reading

extension BlobFollower {
  /// Fills memory of the caller's with the payload from an offset on, and waits until there is some.
  ///
  /// The checksum is not compared.
  ///
  /// - Returns: bytes that were read; 0 if the whole payload ends there.
  /// - Throws: `streamStalled` if nothing came for `timeout`; `streamBroken` if the writer gave the blob up, or is gone;
  ///   `invalidRange` for an offset below 0 or behind the whole payload; `damaged`, `fileSystem`.
  /// - Complexity: O(*n*) for *n* bytes; one system call where they are there.
  public func read(at offset: Int64, into bytes: inout MutableRawSpan) throws(BlobStoreError) -> Int {
    try unsafe bytes.withUnsafeMutableBytes { buffer throws(BlobStoreError) in
      try withErrorContext("load", key) {
        try unsafe fill(buffer, from: offset, try awaited(beyond: offset))
      }
    }
  }

  /// Calls a closure with the pieces of the payload, in order, as they come.
  ///
  /// It returns once the whole blob was read and has its checksum. Until then, no piece is known to be sound.
  ///
  /// - Parameters:
  ///   - pieceSize: bytes of a piece at most, above 0.
  ///   - body: receives each piece, which is gone when it returns.
  /// - Returns: the header of the record.
  /// - Throws: what `body` throws, unchanged; else as `read`; `damaged` if the checksum is wrong, after `damagePolicy` was
  ///   followed.
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

  /// Waits on the caller's thread.
  private func awaited(beyond offset: Int64) throws -> FollowedProgress {
    let answer = Monitor<FollowedStream.Answer?>(nil)
    _ = whenReady(beyond: offset) { found in answer.change { $0 = found } }
    return try answer.wait { found in found.map { .done($0) } ?? .wait(nil) }.get()
  }

  /// Calls once: when there are bytes behind an offset, when the blob is whole or not to come, or when time is up.
  ///
  /// - Returns: what `leave` takes; nil if it has called already.
  package func whenReady(
    beyond offset: Int64, _ call: @escaping @Sendable (Result<FollowedProgress, any Error>) -> Void
  ) -> UInt64? {
    let number = stream.wait(beyond: offset, atMost: timeout) { [key] answer in
      call(answer.mapError { $0 is CancellationError ? $0 : BlobStoreError($0, operation: "load", key: key) })
    }
    guard let number else { return nil }
    // A whole blob lets nothing wait.
    if let identity { core.streams.watch(identity) }
    return number
  }

  /// Reads what is there.
  ///
  /// - Parameters:
  ///   - offset: in the payload.
  ///   - count: bytes at most.
  ///   - progress: what a wait for bytes behind the offset has answered.
  /// - Returns: no bytes at the end of the payload.
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

  /// Ends a wait with an error, unless it has ended.
  package func leave(_ number: UInt64, _ error: any Error) { stream.leave(number, error) }

  /// Reads what is there.
  ///
  /// - Returns: 0 at the end of the payload.
  func fill(
    _ buffer: UnsafeMutableRawBufferPointer, from offset: Int64, _ progress: FollowedProgress
  ) throws -> Int {
    try check(offset, progress)
    let wanted = Int(min(Int64(buffer.count), progress.byteCount - offset))
    let piece = unsafe UnsafeMutableRawBufferPointer(rebasing: buffer[..<wanted])
    let count = try unsafe stream.record.file.read(into: piece, at: Int64(RecordHeader.byteCount) + offset)
    // Fewer bytes than a moment ago mean that another program has truncated the file.
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

  /// Judges a whole blob at its end, by the computed checksum of its payload.
  func judge(_ progress: FollowedProgress, computed: UInt32) throws {
    var error = progress.breach
    if let stated = progress.header?.payloadChecksum, computed != stated {
      error = .payloadChecksumMismatch(stated: stated, computed: computed)
    }
    guard let error else { return }
    try core.follow(core.configuration.damagePolicy, for: error, at: path)
    throw DamagedRecord(error: error, path: file)
  }

  private var file: FilePath { core.root.path.appending(path.relative) }
}

extension BlobStore {
  /// Opens the blob of a key, if it is live or being written, for reads that wait for what is still to come.
  ///
  /// A blob that is being written is one of a writer with `visibility: .whileWriting`, in this process or in another one.
  /// A whole blob is opened as by `openReader`, and ends without a wait.
  ///
  /// System calls: openat2, fstat, pread; of a stream also flock, fstat, pread, flock.
  ///
  /// - Parameters:
  ///   - key: the key of the record.
  ///   - timeout: how long each read waits for another byte.
  ///   - touching: whether to move the update time of a whole record.
  /// - Returns: nil if there is no record, or it is expired and not locked.
  /// - Throws: `damaged`, also of a stream whose writer is gone; `fileSystem`, `invalidKey`.
  /// - Complexity: O(1).
  public func openFollower(
    for key: BlobKey, timeout: Duration = .seconds(30), touching: Bool = true
  ) throws(BlobStoreError) -> BlobFollower? {
    try withErrorContext("load", key) {
      var path = try core.path(for: key)
      let now = core.configuration.now()
      // The directory that was read, where the load is counted.
      var place: OpenRoot?
      let lookup = FollowedLookup(path: path, now: now)
      let found = try core.readUntilConsistent(lookup, core.configuration.damagePolicy, &place)
      if let place { path = place.placed(path) }
      guard let (header, found) = found else {
        core.count(.miss, of: path.digest, isUse: touching, at: now, in: place)
        return nil
      }
      let stream = core.streams.follow(found, header)
      core.count(
        .hit(byteCount: Int(clamping: stream.progress.byteCount)), of: path.digest, isUse: touching, at: now, in: place)
      if touching, header.ttl == 0, header.lastUpdate < now { _ = core.touchAfterLoad(path, now) }
      return BlobFollower(core, key: key, path: path, stream, found.stream, timeout: timeout)
    }
  }
}

/// A walk over a payload that grows, piece by piece. At its end, the checksum was right.
package struct FollowedPieces: Sendable {
  private let follower: BlobFollower
  package private(set) var offset: Int64 = 0
  private var checksum = CRC32()

  package init(_ follower: BlobFollower) { self.follower = follower }

  /// Reads what is there, as much as the buffer holds.
  ///
  /// - Parameter progress: what a wait for bytes behind `offset` has answered.
  /// - Returns: how many bytes it has; 0 at the end.
  package mutating func next(into buffer: UnsafeMutableRawBufferPointer, _ progress: FollowedProgress) throws -> Int {
    let count = try unsafe follower.fill(buffer, from: offset, progress)
    offset += Int64(count)
    checksum.update(unsafe RawSpan(_unsafeBytes: UnsafeRawBufferPointer(rebasing: buffer[..<count])))
    if count == 0 { try follower.judge(progress, computed: checksum.value) }
    return count
  }

  /// Reads what is there.
  ///
  /// - Parameters:
  ///   - pieceSize: bytes at most, above 0.
  ///   - progress: what a wait for bytes behind `offset` has answered.
  /// - Returns: no bytes at the end.
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

  /// Calls a closure with the next piece, unless it is the end.
  ///
  /// - Parameters:
  ///   - pieceSize: bytes at most, above 0.
  ///   - progress: what a wait for bytes behind `offset` has answered.
  ///   - body: receives the piece, which is gone when it returns.
  /// - Returns: how many bytes it has.
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
