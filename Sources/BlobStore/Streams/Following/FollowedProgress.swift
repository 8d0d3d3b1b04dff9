package import BlobRecord

/// How far a blob is that is followed.
package struct FollowedProgress: Sendable {
  /// Bytes of payload that can be read.
  package var byteCount: Int64
  /// The last header, once the blob is whole.
  package var header: RecordHeader?
}
