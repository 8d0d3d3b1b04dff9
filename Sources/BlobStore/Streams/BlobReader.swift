public import BlobRecord
internal import Posix
internal import Synchronization
internal import SystemPackage

/// A blob that is read in parts; see `BlobStore.openReader`.
///
/// A reader keeps its file open, so a replacement, a removal or a collection does not affect it. It can be used from
/// several threads concurrently. A read of the whole payload verifies its checksum. For a read of a part, the whole
/// payload is verified once on request.
public final class BlobReader: Sendable {
  public let key: BlobKey
  /// The header at the time the reader was opened.
  public let header: RecordHeader
  /// The payload's size in bytes.
  public var byteCount: Int64 { Int64(clamping: header.payloadSize) }
  /// The extended data at the time the reader was opened, or `nil` if the record has no extended data.
  public var extendedData: Data? { record.extension?.extendedData }
  /// The bytes after the payload in the file, in the record format; empty without an extension.
  package var extensionBytes: [UInt8] { record.extension?.encoded ?? [] }
  /// The file's version at the time the reader was opened, or `nil` if the file was written immediately before.
  package var version: FileVersion? { record.version }
  let core: StoreCore
  let path: RecordPath
  let record: OpenRecord
  private let wasVerified: Atomic<Bool>

  init(_ core: StoreCore, key: BlobKey, path: RecordPath, _ header: RecordHeader, _ record: OpenRecord) {
    self.core = core
    self.key = key
    self.path = path
    self.header = header
    self.record = record
    // A payload without a checksum cannot be verified.
    wasVerified = Atomic(header.payloadChecksum == nil)
  }

  /// A Boolean value that indicates whether the payload's checksum was verified, or the payload has no checksum.
  public var isVerified: Bool { wasVerified.load(ordering: .relaxed) }
}

// MARK: - Reading

extension BlobReader {
  /// Returns the bytes of a range of the payload.
  ///
  /// - Parameters:
  ///   - range: The range of offsets in the payload, from 0 to `byteCount`.
  ///   - verifying: A Boolean value that indicates whether to verify the whole payload first, unless this reader has
  ///     already verified it.
  /// - Returns: The bytes of the range.
  /// - Throws: `invalidRange`; `damaged` if the checksum is wrong, after `damagePolicy` was applied; `fileSystem`.
  /// - Complexity: O(*n*) for *n* bytes; one system call.
  public func read(_ range: Range<Int64>, verifying: Bool = false) throws(BlobStoreError) -> Data {
    try withErrorContext("load", key) {
      try check(range)
      if verifying { try verifyOnce() }
      guard !range.isEmpty else {
        // An empty payload has a checksum too.
        if isWhole(range) { try compare(CRC32().value) }
        return Data()
      }
      guard let buffer = PayloadBuffer(byteCount: range.count) else {
        throw FileError(.read, record.file.location, .noMemory)
      }
      try unsafe fill(buffer.bytes, from: range.lowerBound)
      if isWhole(range) {
        try unsafe compare(CRC32.checksum(of: RawSpan(_unsafeBytes: UnsafeRawBufferPointer(buffer.bytes))))
      }
      return buffer.take()
    }
  }

  /// Reads the payload from an offset into the caller's memory, without verifying the checksum.
  ///
  /// - Returns: The number of bytes that were read, which is less than the capacity only at the end of the payload.
  /// - Throws: `invalidRange` for an offset below 0 or after the payload; `damaged`; `fileSystem`.
  /// - Complexity: O(*n*) for *n* bytes; one system call and no allocation.
  public func read(at offset: Int64, into bytes: inout MutableRawSpan) throws(BlobStoreError) -> Int {
    let room = Int64(bytes.byteCount)
    return try unsafe bytes.withUnsafeMutableBytes { buffer throws(BlobStoreError) in
      try withErrorContext("load", key) {
        try check(offset..<max(offset, byteCount))
        let count = Int(min(room, byteCount - offset))
        try unsafe fill(UnsafeMutableRawBufferPointer(rebasing: buffer[..<count]), from: offset)
        return count
      }
    }
  }

  /// Calls a closure with the pieces of the payload, or of a range of it, in order.
  ///
  /// A complete payload is verified on the way, and the last piece is delivered only after the checksum was verified.
  /// Therefore, a receiver of all bytes has a sound blob.
  ///
  /// - Parameters:
  ///   - range: The range of offsets in the payload, or `nil` for the whole payload.
  ///   - pieceSize: The size of a piece in bytes, above 0. The last piece may be smaller.
  ///   - body: A closure that receives each piece, which is valid only during the call.
  /// - Throws: Any error of `body`, unchanged; otherwise, a `BlobStoreError`: `invalidRange`, `damaged`, `fileSystem`.
  /// - Complexity: O(*n*) for *n* bytes; one system call per piece, and the memory of one piece.
  public func forEachPiece(
    of range: Range<Int64>? = nil, pieceSize: Int = 256 << 10, _ body: (RawSpan) throws -> Void
  ) throws {
    var pieces = try withErrorContext("load", key) { try BlobPieces(of: range ?? 0..<byteCount, in: self) }
    let buffer = unsafe pieces.makeBuffer(pieceSize: pieceSize)
    defer { unsafe buffer.deallocate() }
    while true {
      let count = try withErrorContext("load", key) { try unsafe pieces.next(into: buffer) }
      guard count > 0 else { return }
      try body(unsafe RawSpan(_unsafeBytes: UnsafeRawBufferPointer(rebasing: buffer[..<count])))
    }
  }

  /// Calls a closure with the payload mapped into memory, without copying it.
  ///
  /// No operation of this library invalidates the pages, because it never truncates record files or overwrites open
  /// ones. If another program truncates the file, SIGBUS terminates this process.
  ///
  /// - Parameters:
  ///   - verifying: A Boolean value that indicates whether to verify the checksum first, unless this reader has
  ///     already verified it.
  ///   - body: A closure that receives the bytes, which are valid only during the call.
  /// - Returns: The result of `body`.
  /// - Throws: Any error of `body`, unchanged; otherwise, a `BlobStoreError`: `damaged`, `fileSystem`.
  /// - Complexity: O(*n*) for *n* bytes, once per reader; O(1) without `verifying`.
  public func withMappedBytes<Result>(
    verifying: Bool = true, _ body: (RawSpan) throws -> Result
  ) throws -> Result {
    let outcome = try withErrorContext("load", key) {
      try record.file.withMappedBytes(byteCount: RecordHeader.byteCount + Int(byteCount)) { file in
        let payload = file.extracting(droppingFirst: RecordHeader.byteCount)
        if verifying, !isVerified { try compare(CRC32.checksum(of: payload)) }
        // An error of the closure is passed to the caller unchanged.
        do {
          return Swift.Result<Result, any Error>.success(try body(payload))
        } catch {
          return .failure(error)
        }
      }
    }
    return try outcome.get()
  }

  /// Calls a closure with the descriptor of the open file, from which the system can send bytes. The payload follows
  /// `RecordHeader.byteCount` bytes. The descriptor is closed with the reader.
  package func withDescriptor<Result>(_ body: (CInt) throws -> Result) rethrows -> Result {
    try withExtendedLifetime(self) { try body(record.file.descriptorToSend) }
  }

  /// Verifies the checksum of the payload by reading all of it.
  ///
  /// - Throws: `damaged`, after `damagePolicy` was applied; `fileSystem`.
  /// - Complexity: O(*n*) for *n* bytes on each call.
  public func verify() throws(BlobStoreError) {
    do {
      try forEachPiece { _ in }
    } catch {
      throw BlobStoreError(error, operation: "load", key: key)
    }
  }
}

// MARK: - Checking

extension BlobReader {
  func isWhole(_ range: Range<Int64>) -> Bool { range == 0..<byteCount }

  func check(_ range: Range<Int64>) throws(BlobStoreError) {
    guard range.lowerBound >= 0, range.upperBound <= byteCount else {
      throw BlobStoreError(
        .invalidRange, "the bytes \(range) do not lie within a payload of \(byteCount) bytes", path: file)
    }
  }

  private func verifyOnce() throws {
    if !isVerified { try verify() }
  }

  func fill(_ buffer: UnsafeMutableRawBufferPointer, from offset: Int64) throws {
    let count = try unsafe record.file.read(into: buffer, at: Int64(RecordHeader.byteCount) + offset)
    // Fewer bytes than the header states mean that another program has truncated the file.
    guard count == buffer.count else {
      throw DamagedRecord(
        error: .wrongPayloadSize(stated: header.payloadSize, found: offset + Int64(count)), path: file)
    }
  }

  func compare(_ computed: UInt32) throws {
    guard let stated = header.payloadChecksum else { return }
    guard computed == stated else {
      let error = RecordError.payloadChecksumMismatch(stated: stated, computed: computed)
      try Records(core).follow(core.configuration.damagePolicy, for: error, at: path)
      throw DamagedRecord(error: error, path: file)
    }
    wasVerified.store(true, ordering: .relaxed)
  }

  private var file: FilePath { core.root.path.appending(path.relative) }
}

extension BlobStore {
  /// Opens the blob of a key for reads of its parts, if it is live.
  ///
  /// It counts and touches the record and applies `damagePolicy` like a load, but allocates no memory for the payload,
  /// so `limits.payload` does not apply. The checksum is not verified yet; see `BlobReader`.
  ///
  /// System calls: openat2, fstat, pread, another pread for an extension; close when the reader is destroyed.
  ///
  /// - Parameters:
  ///   - key: The key of the record.
  ///   - touching: A Boolean value that indicates whether to advance the update time.
  /// - Returns: A reader, or `nil` if no record exists, or it is expired and not locked.
  /// - Throws: `damaged`, `fileSystem`, `invalidKey`.
  /// - Complexity: O(1).
  public func openReader(for key: BlobKey, touching: Bool = true) throws(BlobStoreError) -> BlobReader? {
    try openReader(for: key, touching: touching, isLoad: true)
  }

  /// - Parameter isLoad: `false` for a copy that no caller has requested, which is not counted.
  package func openReader(
    for key: BlobKey, touching: Bool, isLoad: Bool
  ) throws(BlobStoreError) -> BlobReader? {
    try withErrorContext("load", key) {
      var path = try core.path(for: key)
      let now = core.configuration.now()
      // The directory that was read, in which the load is counted.
      var place: OpenRoot?
      let lookup = OpenLookup(path: path, now: now)
      let found = try Records(core).readUntilConsistent(lookup, core.configuration.damagePolicy, &place)
      if let place { path = place.placed(path) }
      let outcome: CountedLoad = found.map { .hit(byteCount: Int(clamping: $0.0.payloadSize)) } ?? .miss
      if isLoad { core.uses.count(outcome, of: path.digest, isUse: touching, at: now, in: place) }
      guard let (header, record) = found else { return nil }
      if touching, header.ttl == 0, header.lastUpdate < now { _ = Records(core).touchAfterLoad(path, now) }
      return BlobReader(core, key: key, path: path, header, record)
    }
  }
}

/// An iteration over a range of a payload, piece by piece.
///
/// The checksum of a whole payload is verified with its last piece, which is returned only if the checksum is correct.
package struct BlobPieces: Sendable {
  private let reader: BlobReader
  private let range: Range<Int64>
  private var offset: Int64
  private var checksum = CRC32()

  package init(of range: Range<Int64>, in reader: BlobReader) throws(BlobStoreError) {
    try reader.check(range)
    self.reader = reader
    self.range = range
    offset = range.lowerBound
  }

  /// Allocates a buffer for pieces, or for the whole range if that is smaller. The caller deallocates it.
  package func makeBuffer(pieceSize: Int) -> UnsafeMutableRawBufferPointer {
    precondition(pieceSize > 0, "pieces of \(pieceSize) bytes")
    return UnsafeMutableRawBufferPointer.allocate(byteCount: min(pieceSize, max(range.count, 1)), alignment: 16)
  }

  /// Reads the next piece, up to the size of the buffer. Returns its size, or 0 at the end.
  package mutating func next(into buffer: UnsafeMutableRawBufferPointer) throws -> Int {
    let count = Int(min(Int64(buffer.count), range.upperBound - offset))
    let piece = unsafe UnsafeMutableRawBufferPointer(rebasing: buffer[..<count])
    try unsafe reader.fill(piece, from: offset)
    offset += Int64(count)
    guard reader.isWhole(range) else { return count }
    checksum.update(unsafe RawSpan(_unsafeBytes: UnsafeRawBufferPointer(piece)))
    // An empty payload has a checksum too.
    if count > 0 ? offset == range.upperBound : range.isEmpty { try reader.compare(checksum.value) }
    return count
  }

  /// Reads bytes for the checksum and the page cache, and discards them. Returns their number, or 0 at the end.
  package mutating func pass(byteCount: Int) throws -> Int {
    let buffer = unsafe makeBuffer(pieceSize: min(byteCount, 128 << 10))
    defer { unsafe buffer.deallocate() }
    var passed = 0
    while passed < byteCount {
      let count = try unsafe next(into: buffer)
      guard count > 0 else { break }
      passed += count
    }
    return passed
  }
}
