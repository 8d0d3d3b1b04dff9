internal import BlobRecord
internal import BlobStore

/// A payload that is read from its file while it goes to a remote engine.
///
/// The file stays open, so a replacement or a removal takes nothing from it.
struct RemotePayloadFile: Sendable {
  let reader: BlobReader
  /// Whose threads read it.
  let lane: Lane

  /// The checksum of a payload whose header has none.
  func checksum() async throws -> UInt32 {
    try await lane.run { [reader] _ in
      var checksum = CRC32()
      try reader.forEachPiece { checksum.update($0) }
      return checksum.value
    }
  }

  /// A seal with the payload in it.
  func sealed(_ seal: RecordSeal) async throws -> RecordSeal {
    try await lane.run { [reader] _ in
      var seal = seal
      try reader.forEachPiece { seal.update($0) }
      return seal
    }
  }
}
