internal import Posix
internal import Synchronization
internal import SystemPackage

/// A pack, `.packs/p-N`, with a mapped head, and chunks of records that are read and written with system calls.
///
/// Unless the application requests a mapping, a broken medium or a truncated pack causes no signal, only an error.
final class PackFile: Sendable {
  /// The number that is part of each address: 0 to 1023.
  let number: Int
  /// A random number that distinguishes the pack from a later one with the same number.
  let identifier: UInt64
  let identity: FileIdentity
  let head: MappedFile
  private let file: OpenFile
  private let sync = SharedSync()
  /// The mapping of the whole pack, or `nil` if loads use system calls.
  private let content: MappedBytes?
  /// The last known length of the file, which never decreases.
  private let knownByteCount = Atomic(0)

  init(
    _ number: Int, identifier: UInt64, _ identity: FileIdentity, _ file: consuming OpenFile,
    head: consuming MappedFile, content: MappedBytes?
  ) {
    self.number = number
    self.identifier = identifier
    self.identity = identity
    self.file = file
    self.head = head
    self.content = content
  }

  static func name(_ number: Int) -> String { "p-\(number)" }

  func isCurrent(in packs: PackDirectory) throws(FileError) -> Bool {
    guard let named = try packs.subdirectory.directory.status(of: Self.name(number)) else { return false }
    return FileIdentity(named) == identity
  }
}

extension PackFile {
  /// Returns the allocated size of the file. System call: `fstat(2)`.
  func mediumByteCount() throws(FileError) -> Int64 { try file.status().sizeAllocated }
}

extension [PackFile] {
  /// The highest number plus 1, or 0 without packs.
  var numberBound: Int { reduce(0) { Swift.max($0, $1.number + 1) } }
}

// MARK: - Parts of the head

extension PackFile {
  func entry(ofChunk number: Int) -> ChunkEntry { ChunkEntry(self, number) }

  func deadBits(ofChunk chunk: Int) -> DeadBits { DeadBits(self, chunk) }

  /// Returns the first chunk that appears to be free, optionally with blocks. Reads one cache line per chunk.
  func firstFreeChunk(hasBlocks: Bool = false) -> Int? {
    (0..<PackLayout.chunkCount).first {
      let entry = entry(ofChunk: $0)
      return entry.state.kind == .free && (!hasBlocks || entry.hasBlocks)
    }
  }
}

// MARK: - Chunks

extension PackFile {
  /// Reads bytes at any address of this pack, and returns their count.
  ///
  /// Fewer bytes than requested are read at the end of the file, as in an unwritten chunk. System call: `pread(2)`.
  func read(into buffer: UnsafeMutableRawBufferPointer, at address: PackAddress) throws(FileError) -> Int {
    try unsafe file.read(into: buffer, at: Int64(address.fileOffset))
  }

  /// Returns the header and name of the record at any address of this pack, or `nil` if no record begins there.
  /// System call: `pread(2)`.
  func head(of address: PackAddress) throws -> (header: PackedHeader, name: [UInt8])? {
    guard address.canHoldRecord else { return nil }
    let largest = PackLayout.recordHeaderByteCount + PackLayout.largestNameByteCount
    var bytes = [UInt8](repeating: 0, count: min(largest, address.byteCountToChunkEnd))
    // Read before the bytes, because the chunk's next life has another salt.
    let salt = deadBits(ofChunk: address.chunk).salt(ofQuarter: address.quarter)
    let count = try unsafe bytes.withUnsafeMutableBytes { try unsafe read(into: $0, at: address) }
    guard let salt,
      let header = PackedHeader(decoding: unsafe bytes.span.bytes.extracting(first: count), at: address, salt: salt)
    else { return nil }
    return (header, Array(bytes[header.nameRange]))
  }

  /// Reads bytes with `pread(2)`, or from memory if the pack is mapped, with an `fstat(2)` after the pack has grown.
  func readRecord(into buffer: UnsafeMutableRawBufferPointer, at address: PackAddress) throws(FileError) -> Int {
    guard let content else { return try unsafe read(into: buffer, at: address) }
    let end = address.fileOffset + buffer.count
    if end > knownByteCount.load(ordering: .relaxed) {
      let byteCount = Int(clamping: try file.status().size)
      knownByteCount.store(byteCount, ordering: .relaxed)
      guard end <= byteCount else { return try unsafe read(into: buffer, at: address) }
    }
    unsafe content.copy(from: address.fileOffset, into: buffer)
    return buffer.count
  }

  /// Reads bytes without waiting for the disk. System call: `preadv2(2)`.
  func readCached(
    into buffer: UnsafeMutableRawBufferPointer, at address: PackAddress
  ) throws(CachedLookupFailure) -> Int {
    try unsafe file.readCached(into: buffer, at: Int64(address.fileOffset))
  }

  /// Writes a record at an address that was reserved for it. System call: `pwrite(2)`.
  func write(_ record: RawSpan, at address: PackAddress) throws(FileError) {
    precondition(
      address.pack == number && address.canHoldRecord && record.byteCount <= address.byteCountToChunkEnd,
      "\(record.byteCount) bytes at \(address.rawValue) of pack \(number)")
    try file.write(record, at: Int64(address.fileOffset))
  }

  /// Allocates the blocks of a chunk, and preserves its content, so that later writes do not fail on a full volume.
  /// This also extends the file, because a write that extends it would wait for the journal. If the file system cannot
  /// allocate blocks, a write may still fail. System call: `fallocate(2)`.
  func allocate(chunk: Int) throws(FileError) {
    _ = try file.allocate(range(ofChunk: chunk))
    entry(ofChunk: chunk).noteBlocks(true)
  }

  /// Returns the blocks of a free chunk to the volume. Returns `false` if the file system does not support that. System
  /// call: `fallocate(2)`, which may wait for the journal, so it is called only when the packs shrink.
  func punchHole(chunk: Int) throws(FileError) -> Bool {
    guard try file.punchHole(range(ofChunk: chunk)) else { return false }
    entry(ofChunk: chunk).noteBlocks(false)
    return true
  }

  /// Syncs records, salts and dead bits, which are in the same file.
  ///
  /// System call: `fdatasync(2)`, or none if another thread's call covers it. After a failure, the pack must not be
  /// synced again, as described for `OpenFile.synchronize`.
  func synchronize() throws(FileError) {
    try sync.run { () throws(FileError) in try file.synchronize(.barrier) }
  }

  /// A Boolean value that indicates whether written bytes may never reach the medium.
  var hasFailedToSynchronize: Bool { sync.hasFailed }

  private func range(ofChunk chunk: Int) -> Range<Int64> {
    precondition(0..<PackLayout.chunkCount ~= chunk, "chunk \(chunk)")
    let start = Int64(PackLayout.fileOffset(ofChunk: chunk))
    return start..<start + Int64(PackLayout.chunkByteCount)
  }
}
