internal import BlobRecord

/// A record that came from a remote engine, after every rule of the format was asked of it.
struct ReceivedRecord: Sendable {
  let header: RecordHeader
  let payload: Data
  let extendedData: Data?
  let modified: UnixTime?
}

/// A record that came from a remote engine into a file, and takes its place with the commit.
struct ReceivedFile<Writer: ReceivedPayloadWriter>: Sendable {
  let header: RecordHeader
  let writer: Writer
  let extendedData: Data?
  let modified: UnixTime?
}

/// Takes the payload of a record that comes from a remote engine, piece by piece.
protocol ReceivedPayloadWriter: Sendable {
  func append(_ bytes: Data) async throws
  /// Gives the payload up; nothing of it remains.
  func giveUp() async
}
