internal import BlobRecord

/// The tag of a payload: its checksum and its size.
///
/// Equal payloads have equal tags, whenever they were stored. Two payloads of one key and one size share a tag by a chance
/// of 1 in 2^32. A record without a checksum has a weak tag, of its update time and size.
struct EntityTag: Hashable {
  /// With its quotation marks.
  let text: String
  let isWeak: Bool

  /// Of a blob that is still being written. Without quotation marks, it is none that a request could name.
  static let unknown = EntityTag(text: "", isWeak: true)

  private init(text: String, isWeak: Bool) {
    self.text = text
    self.isWeak = isWeak
  }

  init(_ header: RecordHeader) {
    let size = String(header.payloadSize, radix: 16)
    isWeak = header.payloadChecksum == nil
    if let checksum = header.payloadChecksum {
      text = "\"\(String(checksum, radix: 16))-\(size)\""
    } else {
      text = "\"\(String(header.updateTime, radix: 16))-\(size)\""
    }
  }

  var fieldValue: String { isWeak ? "W/" + text : text }
}
