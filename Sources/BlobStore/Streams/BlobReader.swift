public import BlobRecord
internal import Posix
internal import Synchronization
internal import SystemPackage

/// A blob that is read in parts: `BlobStore.openReader`.
///
/// It keeps its file open, and so its blob: a replacement, a removal or a collection takes nothing from it. Its calls may
/// be made on several threads at once.
///
/// A read of the whole payload compares its checksum. A read of a part does so on request, by a read of the whole, once.
public final class BlobReader: Sendable {
  public let key: BlobKey
  /// As it was when the reader was opened.
  public let header: RecordHeader
  /// Bytes of payload.
  public var byteCount: Int64 { Int64(clamping: header.payloadSize) }
  /// What lay beside the payload when the reader was opened; nil for nothing.
  public var extendedData: Data? { record.extension?.extendedData }
  /// The bytes behind the payload in the file, as a reader of the format wants them; nothing without an extension.
  package var extensionBytes: [UInt8] { record.extension?.encoded ?? [] }
  /// The file as it was when the reader was opened; nil if it was written to just before.
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
    // Without a checksum, nothing can be compared.
    wasVerified = Atomic(header.payloadChecksum == nil)
  }

  /// Whether the payload was found to have its checksum, or has none.
  public var isVerified: Bool { wasVerified.load(ordering: .relaxed) }
}

// MARK: - Reading

extension BlobReader {
  /// The bytes of a range of the payload.
  ///
  /// - Parameters:
  ///   - range: offsets in the payload, from 0 to `byteCount`.
  ///   - verifying: whether to compare the checksum of the whole payload first, unless this reader has done so.
  /// - Throws: `invalidRange`; `damaged` if the checksum is wrong, after `damagePolicy` was followed; `fileSystem`.
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

  /// Fills memory of the caller's with the payload from an offset on.
  ///
  /// The checksum is not compared.
  ///
  /// - Returns: bytes that were read: fewer than there is room only at the end of the payload.
  /// - Throws: `invalidRange` for an offset below 0 or behind the payload; `damaged`, `fileSystem`.
  /// - Complexity: O(*n*) for *n* bytes; one system call, and no allocation.
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
  /// The whole payload is verified on the way, and the last piece comes once the checksum is right. So a receiver that
  /// has all bytes has a sound blob.
  ///
  /// - Parameters:
  ///   - range: offsets in the payload; nil for all of it.
  ///   - pieceSize: bytes of a piece, above 0. The last may have fewer.
  ///   - body: receives each piece, which is gone when it returns.
  /// - Throws: what `body` throws, unchanged; else a `BlobStoreError`: `invalidRange`, `damaged`, `fileSystem`.
  /// - Complexity: O(*n*) for *n* bytes; one system call for each piece, and the memory of one.
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

  /// Calls a closure with the payload, mapped into memory and not copied.
  ///
  /// No operation of this library takes pages from it: record files are never cut in place, nor overwritten while they are
  /// open. Another program that truncates the file ends this process by SIGBUS.
  ///
  /// - Parameters:
  ///   - verifying: whether to compare the checksum first, unless this reader has done so.
  ///   - body: receives the bytes, which are gone when it returns.
  /// - Throws: what `body` throws, unchanged; else a `BlobStoreError`: `damaged`, `fileSystem`.
  /// - Complexity: O(*n*) for *n* bytes, once for each reader; O(1) without `verifying`.
  public func withMappedBytes<Result>(
    verifying: Bool = true, _ body: (RawSpan) throws -> Result
  ) throws -> Result {
    let outcome = try withErrorContext("load", key) {
      try record.file.withMappedBytes(byteCount: RecordHeader.byteCount + Int(byteCount)) { file in
        let payload = file.extracting(droppingFirst: RecordHeader.byteCount)
        if verifying, !isVerified { try compare(CRC32.checksum(of: payload)) }
        // An error of the closure goes to the caller as it is.
        do {
          return Swift.Result<Result, any Error>.success(try body(payload))
        } catch {
          return .failure(error)
        }
      }
    }
    return try outcome.get()
  }

  /// Calls a closure with the descriptor of the open file, for what the system sends from there.
  ///
  /// The payload lies behind `RecordHeader.byteCount` bytes. The descriptor is closed with the reader.
  package func withDescriptor<Result>(_ body: (CInt) throws -> Result) rethrows -> Result {
    try withExtendedLifetime(self) { try body(record.file.descriptorToSend) }
  }

  /// Compares the checksum of the payload, which is read as a whole.
  ///
  /// - Throws: `damaged`, after `damagePolicy` was followed; `fileSystem`.
  /// - Complexity: O(*n*) for *n* bytes, each time.
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
    // Fewer bytes than the header says mean that another program has truncated the file.
    guard count == buffer.count else {
      throw DamagedRecord(
        error: .wrongPayloadSize(stated: header.payloadSize, found: offset + Int64(count)), path: file)
    }
  }

  /// Compares a computed checksum of the payload with the one in the header.
  func compare(_ computed: UInt32) throws {
    guard let stated = header.payloadChecksum else { return }
    guard computed == stated else {
      let error = RecordError.payloadChecksumMismatch(stated: stated, computed: computed)
      try core.follow(core.configuration.damagePolicy, for: error, at: path)
      throw DamagedRecord(error: error, path: file)
    }
    wasVerified.store(true, ordering: .relaxed)
  }

  private var file: FilePath { core.root.path.appending(path.relative) }
}

extension BlobStore {
  /// Opens the blob of a key for reads of its parts, if it is live.
  ///
  /// It counts, touches and follows `damagePolicy` as a load does, and takes no memory for the payload. So
  /// `limits.payload` does not hold here. The checksum of the payload is not compared yet: see `BlobReader`.
  ///
  /// System calls: openat2, fstat, pread, another pread for an extension; close when the reader goes.
  ///
  /// - Parameters:
  ///   - key: the key of the record.
  ///   - touching: whether to move the update time.
  /// - Returns: nil if there is no record, or it is expired and not locked.
  /// - Throws: `damaged`, `fileSystem`, `invalidKey`.
  /// - Complexity: O(1).
  public func openReader(for key: BlobKey, touching: Bool = true) throws(BlobStoreError) -> BlobReader? {
    try openReader(for: key, touching: touching, isLoad: true)
  }

  /// - Parameter isLoad: false for a copy that no caller has asked for, which is not counted.
  package func openReader(
    for key: BlobKey, touching: Bool, isLoad: Bool
  ) throws(BlobStoreError) -> BlobReader? {
    try withErrorContext("load", key) {
      var path = try core.path(for: key)
      let now = core.configuration.now()
      // The directory that was read, where the load is counted.
      var place: OpenRoot?
      let lookup = OpenLookup(path: path, now: now)
      let found = try core.readUntilConsistent(lookup, core.configuration.damagePolicy, &place)
      if let place { path = place.placed(path) }
      let outcome: CountedLoad = found.map { .hit(byteCount: Int(clamping: $0.0.payloadSize)) } ?? .miss
      if isLoad { core.count(outcome, of: path.digest, isUse: touching, at: now, in: place) }
      guard let (header, record) = found else { return nil }
      if touching, header.ttl == 0, header.lastUpdate < now { _ = core.touchAfterLoad(path, now) }
      return BlobReader(core, key: key, path: path, header, record)
    }
  }
}

/// A walk over a range of a payload, piece by piece.
///
/// The checksum of a whole payload is compared with its last piece, which comes only if it is right.
package struct BlobPieces: Sendable {
  private let reader: BlobReader
  private let range: Range<Int64>
  private var offset: Int64
  private var checksum = CRC32()

  /// - Throws: `invalidRange`.
  package init(of range: Range<Int64>, in reader: BlobReader) throws(BlobStoreError) {
    try reader.check(range)
    self.reader = reader
    self.range = range
    offset = range.lowerBound
  }

  /// Memory for pieces of a size, or for all of the range if that is smaller. The caller frees it.
  package func makeBuffer(pieceSize: Int) -> UnsafeMutableRawBufferPointer {
    precondition(pieceSize > 0, "pieces of \(pieceSize) bytes")
    return UnsafeMutableRawBufferPointer.allocate(byteCount: min(pieceSize, max(range.count, 1)), alignment: 16)
  }

  /// Reads the next piece, as large as the buffer if there are so many bytes left.
  ///
  /// - Returns: how many bytes it has; 0 at the end.
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

  /// Reads bytes and drops them: the system has them in memory then, and they count for the checksum.
  ///
  /// - Returns: how many they are; 0 at the end.
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
