internal import BlobRecord
internal import Posix

/// A checkpoint in the making. It is whole, and on the medium, before it has its name.
struct PackCheckpointDraft: ~Copyable {
  private let directory: PackDirectory
  private var draft: FileDraft
  private let index: PackIndex
  private let covers: [SIMD4<UInt32>]
  private var crc = CRC32()

  /// - Parameter covers: four salts for each chunk of all packs, zeros for one that is not covered.
  init(of index: PackIndex, covers: [SIMD4<UInt32>], in directory: PackDirectory, names: TemporaryNames) throws {
    self.directory = directory
    self.index = index
    self.covers = covers
    draft = try FileDraft(in: directory.subdirectory, of: directory.ownership, names: names, as: .control)
  }

  private var packCount: Int { covers.count / PackLayout.chunkCount }

  /// Copies the buckets of the index as they are while this runs.
  ///
  /// - Complexity: O(*n*) for *n* buckets; memory for some.
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

  /// Gives the checkpoint its name, which another one may have.
  ///
  /// - Parameter sequence: no record that is covered has a higher one.
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
