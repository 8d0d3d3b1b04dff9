internal import Posix
internal import Synchronization
internal import SystemPackage

/// A pack, `.packs/p-N`: a head that is mapped, and chunks of records that are read and written by calls.
///
/// Unless the application wants it, no chunk is mapped. So a broken medium, or a pack that was cut off, is an error of a call,
/// never a signal.
final class PackFile: Sendable {
  /// 0 to 1023: its part of each address.
  let number: Int
  /// Random: it tells the pack from one of the same number that was made anew.
  let identifier: UInt64
  let identity: FileIdentity
  let head: MappedFile
  private let file: OpenFile
  private let sync = SharedSync()
  /// The whole pack, for loads that read from memory; nil for loads that read by calls.
  private let content: MappedBytes?
  /// The length of the file at the last look. It only grows.
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

  /// Whether the name still leads to it.
  func isCurrent(in packs: PackDirectory) throws(FileError) -> Bool {
    guard let named = try packs.subdirectory.directory.status(of: Self.name(number)) else { return false }
    return FileIdentity(named) == identity
  }
}

extension PackFile {
  /// Bytes that the file takes on the medium.
  ///
  /// System call: `fstat(2)`.
  func mediumByteCount() throws(FileError) -> Int64 { try file.status().sizeAllocated }
}

extension [PackFile] {
  /// One above the highest number; 0 without packs.
  var numberBound: Int { reduce(0) { Swift.max($0, $1.number + 1) } }
}

// MARK: - Parts of the head

extension PackFile {
  /// - Parameter number: 0 to 1023.
  func entry(ofChunk number: Int) -> ChunkEntry { ChunkEntry(self, number) }

  /// - Parameter chunk: 0 to 1023.
  func deadBits(ofChunk chunk: Int) -> DeadBits { DeadBits(self, chunk) }

  /// The free chunk of the lowest number, as far as that can be told without taking it.
  ///
  /// - Parameter hasBlocks: true for one that has its blocks.
  /// - Complexity: a cache line for each chunk before it.
  func firstFreeChunk(hasBlocks: Bool = false) -> Int? {
    (0..<PackLayout.chunkCount).first {
      let entry = entry(ofChunk: $0)
      return entry.state.kind == .free && (!hasBlocks || entry.hasBlocks)
    }
  }
}

// MARK: - Chunks

extension PackFile {
  /// Reads what begins at an address.
  ///
  /// System call: `pread(2)`.
  ///
  /// - Parameter address: any one, of this pack.
  /// - Returns: the bytes read. They are fewer than the buffer holds where the file ends, as after a chunk that was never
  ///   written.
  func read(into buffer: UnsafeMutableRawBufferPointer, at address: PackAddress) throws(FileError) -> Int {
    try unsafe file.read(into: buffer, at: Int64(address.fileOffset))
  }

  /// Header and name of the record at an address, which may be any one of this pack.
  ///
  /// System call: `pread(2)`.
  ///
  /// - Returns: nil if no record begins there.
  func head(of address: PackAddress) throws -> (header: PackedHeader, name: [UInt8])? {
    guard address.canHoldRecord else { return nil }
    let largest = PackLayout.recordHeaderByteCount + PackLayout.largestNameByteCount
    var bytes = [UInt8](repeating: 0, count: min(largest, address.byteCountToChunkEnd))
    // Before the bytes: those of the chunk's next life have another one.
    let salt = deadBits(ofChunk: address.chunk).salt(ofQuarter: address.quarter)
    let count = try unsafe bytes.withUnsafeMutableBytes { try unsafe read(into: $0, at: address) }
    guard let salt,
      let header = PackedHeader(decoding: unsafe bytes.span.bytes.extracting(first: count), at: address, salt: salt)
    else { return nil }
    return (header, Array(bytes[header.nameRange]))
  }

  /// As `read`, from memory where the pack is mapped.
  ///
  /// System call: `pread(2)`. Where the pack is mapped none, but for an `fstat(2)` once the pack has grown.
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

  /// As `read`, without waiting for the disk.
  ///
  /// System call: `preadv2(2)`.
  func readCached(
    into buffer: UnsafeMutableRawBufferPointer, at address: PackAddress
  ) throws(CachedLookFailure) -> Int {
    try unsafe file.readCached(into: buffer, at: Int64(address.fileOffset))
  }

  /// Writes a record at an address that was reserved for it.
  ///
  /// System call: `pwrite(2)`.
  func write(_ record: RawSpan, at address: PackAddress) throws(FileError) {
    precondition(
      address.pack == number && address.canHoldRecord && record.byteCount <= address.byteCountToChunkEnd,
      "\(record.byteCount) bytes at \(address.rawValue) of pack \(number)")
    try file.write(record, at: Int64(address.fileOffset))
  }

  /// Gives a chunk its blocks, so that no record finds the volume full. What it holds stays.
  ///
  /// The file gets the chunk's length with them: a write that makes a file longer takes a journal's time too. Where the
  /// file system sets nothing aside, a write may find the volume full.
  ///
  /// System call: `fallocate(2)`.
  func allocate(chunk: Int) throws(FileError) {
    _ = try file.allocate(range(ofChunk: chunk))
    entry(ofChunk: chunk).noteBlocks(true)
  }

  /// Gives the blocks of a free chunk back to the volume.
  ///
  /// System call: `fallocate(2)`. It may wait for the file system's journal, so it is for packs that shrink.
  ///
  /// - Returns: false where the file system keeps them.
  func punchHole(chunk: Int) throws(FileError) -> Bool {
    guard try file.punchHole(range(ofChunk: chunk)) else { return false }
    entry(ofChunk: chunk).noteBlocks(false)
    return true
  }

  /// Brings records, salts and dead bits to the medium: they are of one file.
  ///
  /// System call: `fdatasync(2)`; none where another thread's call has brought it there meanwhile. After a failure the pack must
  /// not be synced again, as `OpenFile.synchronize` says.
  func synchronize() throws(FileError) {
    try sync.run { () throws(FileError) in try file.synchronize(.barrier) }
  }

  /// Whether something that was written may never reach the medium.
  var hasFailedToSynchronize: Bool { sync.hasFailed }

  private func range(ofChunk chunk: Int) -> Range<Int64> {
    precondition(0..<PackLayout.chunkCount ~= chunk, "chunk \(chunk)")
    let start = Int64(PackLayout.fileOffset(ofChunk: chunk))
    return start..<start + Int64(PackLayout.chunkByteCount)
  }
}
