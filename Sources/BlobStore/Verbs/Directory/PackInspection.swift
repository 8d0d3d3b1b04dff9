public import BlobRecord
internal import Posix
public import SystemPackage

/// A detailed view of a pack: its chunks and their records, including dead ones.
///
/// The pack may be damaged, and inside or outside a cache. It is read by system calls, without an index.
public final class PackInspection: Sendable {
  public let path: FilePath
  /// The number of the pack, which is read from its header or, if that is damaged, from the file name.
  public let number: Int
  /// A random identifier that distinguishes the pack from a later pack with the same number.
  public let identifier: UInt64
  /// The size of the file in bytes.
  public let fileSize: Int64
  /// The space that the file occupies on the medium, in bytes.
  public let mediumSize: Int64
  /// The reason why the file is not a pack of this version, or `nil` if it is one.
  public let flaw: String?
  private let naming: RecordNaming
  private let file: OpenFile

  /// The number of chunks in a pack.
  public static let chunkCount = PackLayout.chunkCount

  fileprivate init(
    _ path: FilePath, number: Int, _ header: PackHeader, flaw: String?, _ status: Stat, _ naming: RecordNaming,
    _ file: consuming OpenFile
  ) {
    self.path = path
    self.number = number
    identifier = header.identifier
    fileSize = status.size
    mediumSize = status.sizeAllocated
    self.flaw = flaw
    self.naming = naming
    self.file = file
  }

  /// A chunk: its entry in the pack's table, and its records.
  public struct Chunk: Sendable {
    /// The number of the chunk, from 0 to 1023.
    public let number: Int
    /// The state, or `nil` if its number is unknown.
    public let state: State?
    /// The token of the session that took the chunk.
    public let owner: UInt64
    /// The number of records for which space is reserved and that are not yet published.
    public let inFlight: Int
    /// The number of allocated bytes.
    public let byteCount: Int
    /// The class of the records: 0 to 6 by time to live, 7 moved by a collection, 8 durable.
    public let recordClass: UInt32
    /// The time after which no record with a time to live expires, or `nil` if no record has one.
    public let latestExpiry: UnixTime?
    /// The records in the order of their offsets.
    public let records: [Record]
    /// The number of allocated bytes without a readable record, because they are damaged or not completely written.
    public let unreadableByteCount: Int

    public enum State: String, Sendable {
      case free, open, sealed, collecting
    }
  }

  /// A readable record, dead or not.
  public struct Record: Sendable {
    public let place: PackedPlace
    /// The number of bytes in the chunk.
    public let byteCount: Int
    /// A Boolean value that indicates whether the record was replaced or removed, or was never published.
    public let isDead: Bool
    /// The file name, or `nil` if it is not valid text.
    public let fileName: String?
    /// The key, or `nil` if neither the file name nor the record contains it.
    public let key: BlobKey?
    /// The header as written, without the time of the last use, which is noted in the index.
    public let header: RecordHeader
    /// A Boolean value that indicates whether the payload matches its checksum.
    public let hasSoundPayload: Bool
  }
}

extension BlobStore {
  /// Inspects a pack, which may be inside or outside a cache, without touching it.
  ///
  /// The store's naming is used to determine the keys of the records.
  ///
  /// - Returns: The inspection, or `nil` if neither the path, `.packs/p-0`, nor the first bytes indicate a pack.
  /// - Throws: `foreignFile` if it is not a regular file; `fileSystem`.
  public func inspectPack(_ path: FilePath) throws(BlobStoreError) -> PackInspection? {
    try withErrorContext("inspect") { try PackInspection.open(path, core.configuration.layout.naming) }
  }
}

// MARK: - The head

extension PackInspection {
  fileprivate static func open(_ path: FilePath, _ naming: RecordNaming) throws -> PackInspection? {
    let name = path.lastComponent?.string ?? path.string
    let parent = path.removingLastComponent()
    guard let directory = try Directory(at: parent.isEmpty ? "." : parent, files: Files()) else {
      throw FileError(.open, Location(path), .noSuchFileOrDirectory)
    }
    switch try directory.openFile(name, for: .read) {
    case .absent: throw FileError(.open, Location(path), .noSuchFileOrDirectory)
    case .notRegular: throw BlobStoreError(.foreignFile, "this is no regular file", path: path)
    case .regular(let file, let status):
      let header = try PackHeader(of: file)
      let isInPlace = parent.lastComponent?.string == PackDirectory.name
      let named = isInPlace ? number(ofFileName: name) : nil
      guard header.hasMagic || named != nil else { return nil }
      let flaw = header.flaw(named: named)
      let number = (flaw == nil ? header.number : nil) ?? named ?? header.number ?? 0
      return PackInspection(path, number: number, header, flaw: flaw, status, naming, file)
    }
  }

  private static func number(ofFileName name: String) -> Int? {
    let number = name.hasPrefix("p-") ? Int(name.dropFirst(2)) : nil
    guard let number, 0..<PackLayout.packCount ~= number, PackFile.name(number) == name else { return nil }
    return number
  }
}

extension PackHeader {
  /// Returns the reason why it is not the header of a pack that this program supports, or `nil` if it is.
  fileprivate func flaw(named number: Int?) -> String? {
    guard hasMagic else { return "it does not begin as a pack" }
    guard version <= PackLayout.version else { return "version \(version) is later than this program" }
    guard let number = number ?? self.number else { return "its head is damaged" }
    return flaw(number: number, identifier: nil)
  }
}

// MARK: - Chunks

extension PackInspection {
  /// Reads a chunk and its records, which may or may not include concurrent changes.
  ///
  /// - Parameter number: The number of the chunk, from 0 to 1023.
  /// - Returns: The chunk, or `nil` if it was never used.
  /// - Throws: `fileSystem`.
  /// - Complexity: O(*n*) for all bytes of the chunk, because the table may not cover them after a power failure.
  public func chunk(_ number: Int) throws(BlobStoreError) -> Chunk? {
    precondition(0..<Self.chunkCount ~= number, "chunk \(number)")
    do {
      return try read(number)
    } catch {
      throw BlobStoreError(error, operation: "inspect", key: nil)
    }
  }

  private func read(_ chunk: Int) throws -> Chunk? {
    let entry = TableEntry(
      words: try words(PackLayout.tableEntryByteCount, at: PackLayout.tableEntryOffset(ofChunk: chunk)))
    let sectors = try words(
      PackLayout.quarterCount * PackLayout.deadSectorByteCount,
      at: PackLayout.deadSectorOffset(ofChunk: chunk, quarter: 0))
    guard !entry.isUnused || sectors.contains(where: { $0 != 0 }) else { return nil }
    // The bytes are read after the salts, because the records of a reused chunk have other salts.
    let bytes = try bytes(PackLayout.chunkByteCount, at: PackLayout.fileOffset(ofChunk: chunk))
    let stride = PackLayout.deadSectorByteCount / 8
    var walk = ChunkWalk(
      pack: number, chunk: chunk,
      salts: ChunkSalts(words: SIMD4(sectors[0], sectors[stride], sectors[2 * stride], sectors[3 * stride])))
    let base = PackLayout.deadSectorOffset(ofChunk: chunk, quarter: 0)
    var (records, end, unreadableByteCount) = ([Record](), 0, 0)
    while let found = walk.next(in: unsafe bytes.span.bytes) {
      let isDead = sectors[(found.address.deadWordOffset - base) / 8] & found.address.deadBit != 0
      records.append(unsafe record(found, in: bytes.span.bytes, isDead: isDead))
      unreadableByteCount += max(0, min(found.address.offset, entry.end) - PackLayout.firstPlace(from: end))
      end = found.range.upperBound
    }
    unreadableByteCount += max(0, entry.end - end)
    return Chunk(
      number: chunk, state: entry.state.kind.map { Chunk.State($0) }, owner: entry.state.owner,
      inFlight: entry.inFlight, byteCount: entry.end, recordClass: entry.recordClass,
      latestExpiry: entry.latestExpiry, records: records,
      unreadableByteCount: entry.state.kind == .free ? 0 : unreadableByteCount)
  }

  private func record(_ found: PackedRecord, in chunk: RawSpan, isDead: Bool) -> Record {
    let name = unsafe chunk.extracting(found.nameRange).withUnsafeBytes { unsafe String(validating: $0, as: UTF8.self) }
    let tail = chunk.extracting(found.extensionRange)
    let kept = tail.byteCount > 0 ? try? RecordExtension(decoding: tail) : nil
    return Record(
      place: PackedPlace(found.address, sequence: found.header.sequence), byteCount: found.header.byteCount,
      isDead: isDead, fileName: name, key: name.flatMap { naming.key(ofFileName: $0) } ?? kept?.key,
      header: found.header.recordHeader(nameDigest: found.nameDigest(in: chunk)),
      hasSoundPayload: found.hasSoundPayload(in: chunk))
  }

  private func bytes(_ count: Int, at offset: Int) throws -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: count)
    let read = try unsafe bytes.withUnsafeMutableBytes { buffer in
      try unsafe file.read(into: buffer, at: Int64(offset))
    }
    bytes.removeLast(count - read)
    return bytes
  }

  /// Returns the words at an offset, which are 0 after the end of the file.
  private func words(_ byteCount: Int, at offset: Int) throws -> [UInt64] {
    var words = [UInt64](repeating: 0, count: byteCount / 8)
    _ = try unsafe words.withUnsafeMutableBytes { buffer in
      try unsafe file.read(into: buffer, at: Int64(offset))
    }
    return words.map { UInt64(littleEndian: $0) }
  }
}

private struct TableEntry {
  let words: [UInt64]

  private typealias Field = PackLayout.TableEntry

  var isUnused: Bool { words.allSatisfy { $0 == 0 } }
  var state: ChunkState { ChunkState(rawValue: words[Field.stateOffset / 8]) }
  var inFlight: Int { Int(words[Field.inFlightOffset / 8] & 0xFFFF_FFFF) }
  var end: Int { min(Int(words[Field.inFlightOffset / 8] >> 32 & 0x7FFF_FFFF), PackLayout.chunkByteCount) }
  var recordClass: UInt32 { UInt32(truncatingIfNeeded: words[Field.classOffset / 8]) }

  var latestExpiry: UnixTime? {
    let seconds = words[Field.latestExpiryOffset / 8]
    return seconds == 0 ? nil : UnixTime(seconds: Int64(clamping: seconds))
  }
}

extension PackInspection.Chunk.State {
  fileprivate init(_ kind: ChunkState.Kind) {
    self =
      switch kind {
      case .free: .free
      case .open: .open
      case .sealed: .sealed
      case .collecting: .collecting
      }
  }
}
