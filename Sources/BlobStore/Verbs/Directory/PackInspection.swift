public import BlobRecord
internal import Posix
public import SystemPackage

/// A pack in detail: its chunks, and the records in them, dead ones too.
///
/// It is for looks at a pack, which may be damaged, and may lie anywhere. All of it is read by calls, and no index is
/// asked.
public final class PackInspection: Sendable {
  public let path: FilePath
  /// A part of the address of each of its records. As the head says, or where that is damaged, as the file is named.
  public let number: Int
  /// Random: it tells the pack from one of the same number that was made anew.
  public let identifier: UInt64
  /// Bytes from the file's begin to its end.
  public let fileSize: Int64
  /// Bytes that the file takes on the medium.
  public let mediumSize: Int64
  /// What tells that this is no pack of this version; nil if it is one.
  public let flaw: String?
  private let naming: RecordNaming
  private let file: OpenFile

  /// How many chunks a pack has.
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
    /// 0 to 1023.
    public let number: Int
    /// nil for a number that no version gives.
    public let state: State?
    /// The token of the session that took it.
    public let owner: UInt64
    /// Records that have room and are not yet published.
    public let inFlight: Int
    /// Bytes that are given out.
    public let byteCount: Int
    /// 0 to 6 by time to live, 7 moved by a collection, 8 durable.
    public let recordClass: UInt32
    /// No record expires later; nil if none expires.
    public let latestExpiry: UnixTime?
    /// In the order of their offsets.
    public let records: [Record]
    /// Bytes given out in which no record can be read: what is damaged, or was not written to its end.
    public let unreadableByteCount: Int

    public enum State: String, Sendable {
      case free, open, sealed, collecting
    }
  }

  /// A record that can be read, dead or not.
  public struct Record: Sendable {
    public let place: PackedPlace
    /// Bytes in its chunk.
    public let byteCount: Int
    /// Whether it was replaced or removed, or was never published.
    public let isDead: Bool
    /// nil if it is no text.
    public let fileName: String?
    /// nil where neither the file name nor the record tells it.
    public let key: BlobKey?
    /// As it was written. The time of the last use is noted in the index.
    public let header: RecordHeader
    /// Whether the payload is what was stored.
    public let hasSoundPayload: Bool
  }
}

extension BlobStore {
  /// Inspects a pack, which may lie anywhere, also outside of a cache.
  ///
  /// This store's naming tells the keys of its records. The file is not touched.
  ///
  /// - Returns: nil if the file is no pack, neither by its place, `.packs/p-0`, nor by its first bytes.
  /// - Throws: `foreignFile` if it is no regular file; `fileSystem`.
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
  /// What tells that it is not the header of a pack that this program knows; nil if it is.
  ///
  /// - Parameter number: as the file is named; nil where the name does not tell.
  fileprivate func flaw(named number: Int?) -> String? {
    guard hasMagic else { return "it does not begin as a pack" }
    guard version <= PackLayout.version else { return "version \(version) is later than this program" }
    guard let number = number ?? self.number else { return "its head is damaged" }
    return flaw(number: number, identifier: nil)
  }
}

// MARK: - Chunks

extension PackInspection {
  /// Reads a chunk, and finds the records in it.
  ///
  /// Others may change the chunk meanwhile. What they write then may be found, or not.
  ///
  /// - Parameter number: 0 to 1023.
  /// - Returns: nil if the chunk was never used.
  /// - Throws: `fileSystem`.
  /// - Complexity: O(*n*) for the bytes of the chunk. It is read as a whole, because after a power cut the table may say
  ///   less than is there.
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
    // After the salts: bytes of the chunk's next life have others.
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

  /// So many bytes of the file, or fewer where it ends.
  private func bytes(_ count: Int, at offset: Int) throws -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: count)
    let read = try unsafe bytes.withUnsafeMutableBytes { buffer in
      try unsafe file.read(into: buffer, at: Int64(offset))
    }
    bytes.removeLast(count - read)
    return bytes
  }

  /// The words of so many bytes. Behind the file's end they are 0.
  private func words(_ byteCount: Int, at offset: Int) throws -> [UInt64] {
    var words = [UInt64](repeating: 0, count: byteCount / 8)
    _ = try unsafe words.withUnsafeMutableBytes { buffer in
      try unsafe file.read(into: buffer, at: Int64(offset))
    }
    return words.map { UInt64(littleEndian: $0) }
  }
}

/// A chunk's entry in the table, as it was read.
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
