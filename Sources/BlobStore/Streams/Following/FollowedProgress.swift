package import BlobRecord

/// How far a blob is that is followed.
package struct FollowedProgress: Sendable {
  /// Bytes of payload that can be read.
  package var byteCount: Int64
  /// The last header, once the blob is whole.
  package var header: RecordHeader?
  /// What lies behind the payload of a whole blob; nil for nothing, or where it is damaged.
  var `extension`: RecordExtension?

  /// How the last header is broken by what lies behind the payload; nil where it is sound.
  var breach: RecordError? { header?.extensionEnd != nil && `extension` == nil ? .invalidExtension : nil }
}
