internal import BlobRecord

#if canImport(FoundationEssentials)
  internal import FoundationEssentials
#else
  internal import Foundation
#endif

/// A record that came from a remote engine, after every rule of the format was asked of it.
struct ReceivedRecord: Sendable {
  let header: RecordHeader
  let payload: Data
  let extendedData: Data?
  let modified: UnixTime?
}

/// A record that came from a remote engine into a file, and takes its place with the commit.
struct ReceivedFile: Sendable {
  let header: RecordHeader
  let writer: CacheWriter
  let extendedData: Data?
  let modified: UnixTime?
}
