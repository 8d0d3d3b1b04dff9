internal import BlobRecord
internal import Posix
internal import SystemPackage

/// A copy of the index on the medium, `.packs/checkpoint`. After a boot, only uncovered chunks are walked.
///
/// A covered chunk may lose records but receives none. It is uncovered on the medium before it is reused.
final class PackCheckpoint {
  static let name = "checkpoint"

  let header: CheckpointHeader
  private let directory: PackDirectory
  private let file: OpenFile
  /// The salts of the chunks of all packs, or zeros for an uncovered chunk.
  private var covers: [SIMD4<UInt32>]
  /// A Boolean value that indicates whether a sync has failed, so that the file must be removed.
  private var mustGo = false

  private init(_ header: CheckpointHeader, _ directory: PackDirectory, _ file: consuming OpenFile) throws {
    self.header = header
    self.directory = directory
    covers = Array(repeating: .zero, count: header.packCount * PackLayout.chunkCount)
    let offset = Int64(CheckpointLayout.coverOffset(pack: 0, chunk: 0))
    _ = try unsafe covers.withUnsafeMutableBytes { try unsafe file.read(into: $0, at: offset) }
    self.file = file
  }

  enum Opened {
    case absent
    case checkpoint(PackCheckpoint)
    /// The file is foreign, damaged, of a later version or inaccessible. It must be removed before a chunk is freed.
    case unusable(reason: String)
  }

  /// System calls: `openat2(2)`, and for an existing file `fstat(2)` and two `pread(2)`.
  static func open(in directory: PackDirectory) -> Opened {
    do {
      return try opened(in: directory)
    } catch {
      return .unusable(reason: "\(error)")
    }
  }

  private static func opened(in directory: PackDirectory) throws -> Opened {
    switch try directory.subdirectory.directory.openFile(name, for: .readWrite) {
    case .absent: return .absent
    case .notRegular: return .unusable(reason: "it is no file")
    case .regular(let file, let status):
      if let distrust = directory.ownership.owners.distrust(of: status) { return .unusable(reason: "\(distrust)") }
      guard !directory.ownership.isOutgrown(control: status) else {
        return .unusable(reason: "more users may write to it than to the directory")
      }
      var bytes = [UInt8](repeating: 0, count: CheckpointLayout.headerFieldsByteCount)
      let count = try unsafe bytes.withUnsafeMutableBytes { try unsafe file.read(into: $0, at: 0) }
      guard count == bytes.count, let header = CheckpointHeader(decoding: unsafe bytes.span.bytes),
        status.size == Int64(header.fileByteCount)
      else { return .unusable(reason: "it is damaged, or of a later version") }
      return .checkpoint(try PackCheckpoint(header, directory, file))
    }
  }

  /// Removes the checkpoint on the medium.
  static func remove(in directory: PackDirectory) throws {
    try directory.unlinkOwn(name)
    // Synced even if the file was missing, because its removal may not be on the medium yet.
    try directory.subdirectory.directory.synchronize()
  }

  /// Returns the size of the checkpoint file, or 0 if it does not exist. System call: `fstatat(2)`.
  static func byteCount(in directory: PackDirectory) throws(FileError) -> Int64 {
    try directory.subdirectory.directory.status(of: name)?.size ?? 0
  }

  /// Returns successive ranges of buckets, each of at most 64 KiB.
  static func pieces(ofBuckets count: Int) -> some Sequence<Range<Int>> {
    stride(from: 0, to: count, by: 1024).lazy.map { $0..<min($0 + 1024, count) }
  }

  /// Returns whether the checksum of the buckets is correct, in O(*n*) for *n* buckets.
  func isWhole() throws -> Bool {
    var crc = CRC32()
    try forEachPiece { _, words in crc.update(unsafe words.span.bytes) }
    return crc.value == header.bucketsCRC
  }

  /// Calls a closure with successive buckets and the number of the first. System calls: one `pread(2)` per 64 KiB.
  func forEachPiece(_ body: (Int, [UInt64]) throws -> Void) throws {
    var offset = CheckpointLayout.bucketsOffset(packs: header.packCount)
    for piece in Self.pieces(ofBuckets: header.bucketCount) {
      var words = [UInt64](repeating: 0, count: piece.count * IndexLayout.bucketByteCount / 8)
      _ = try unsafe words.withUnsafeMutableBytes { try unsafe file.read(into: $0, at: Int64(offset)) }
      offset += 8 * words.count
      try body(piece.lowerBound, words)
    }
  }
}

// MARK: - Covered chunks

extension PackCheckpoint {
  /// Returns whether a chunk still has the salts with which it was covered.
  func covers(chunk: Int, of pack: PackFile) -> Bool {
    guard pack.number < header.packCount else { return false }
    let cover = covers[pack.number * PackLayout.chunkCount + chunk]
    return cover != .zero && cover == Self.cover(ofChunk: chunk, of: pack)
  }

  /// Returns the salts of a chunk, or zeros if one is missing.
  static func cover(ofChunk chunk: Int, of pack: PackFile) -> SIMD4<UInt32> {
    let salts = pack.salts(ofChunk: chunk)
    guard let first = salts[0], let second = salts[1], let third = salts[2], let fourth = salts[3] else { return .zero }
    return SIMD4(first, second, third, fourth)
  }

  /// Removes chunks from the checkpoint on the medium, so that they can be reused. System calls: `pwrite(2)` for each
  /// covered chunk, and `fdatasync(2)`; none if no chunk is covered.
  func uncover(_ chunks: [(pack: PackFile, chunk: Int)]) throws {
    let covered = chunks.map { $0.pack.number * PackLayout.chunkCount + $0.chunk }.filter {
      covers.indices.contains($0) && covers[$0] != .zero
    }
    guard !covered.isEmpty else { return }
    do {
      if mustGo { throw FileError(.sync, file.location, .ioError) }
      let none = [UInt8](repeating: 0, count: CheckpointLayout.coverByteCount)
      for index in covered {
        try file.write(
          unsafe none.span.bytes, at: Int64(CheckpointLayout.coverOffset(pack: 0, chunk: 0) + index * none.count))
      }
      try file.synchronize(.barrier)
    } catch {
      // The writes may be lost, and no later sync would report that. Without the file, all chunks are walked.
      mustGo = true
      try Self.remove(in: directory)
    }
    for index in covered { covers[index] = .zero }
  }
}

/// A checkpoint that is complete and on the medium before it gets its name.
struct PackCheckpointDraft: ~Copyable {
  private let directory: PackDirectory
  private var draft: FileDraft
  private let index: PackIndex
  private let covers: [SIMD4<UInt32>]
  private var crc = CRC32()

  /// - Parameter covers: Four salts for each chunk of all packs, or zeros for an uncovered chunk.
  init(of index: PackIndex, covers: [SIMD4<UInt32>], in directory: PackDirectory, names: TemporaryNames) throws {
    self.directory = directory
    self.index = index
    self.covers = covers
    draft = try FileDraft(in: directory.subdirectory, of: directory.ownership, names: names, as: .control)
  }

  private var packCount: Int { covers.count / PackLayout.chunkCount }

  /// Copies the buckets of the index in pieces of 64 KiB, while changes continue.
  mutating func copyBuckets() throws {
    crc = CRC32()
    var offset = CheckpointLayout.bucketsOffset(packs: packCount)
    for piece in PackCheckpoint.pieces(ofBuckets: index.bucketCount) {
      let words = index.copiedBuckets(piece)
      crc.update(unsafe words.span.bytes)
      try draft.file.write(unsafe words.span.bytes, at: Int64(offset))
      offset += 8 * words.count
    }
  }

  /// Replaces the current checkpoint. The sequence is an upper bound for all covered records.
  mutating func commit(upTo sequence: UInt64) throws {
    let header = CheckpointHeader(
      sequence: sequence, seed: index.seed, bucketCount: index.bucketCount, packCount: packCount, bucketsCRC: crc.value)
    try draft.file.write(unsafe header.encoded.span.bytes, at: 0)
    try draft.file.write(unsafe covers.span.bytes, at: Int64(CheckpointLayout.coverOffset(pack: 0, chunk: 0)))
    try draft.file.synchronize(.full)
    try draft.replace(PackCheckpoint.name)
    try directory.subdirectory.directory.synchronize()
  }
}
