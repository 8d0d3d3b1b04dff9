internal import BlobRecord

/// By what conditions know what is stored.
struct Validators {
  let tag: EntityTag
  /// When the payload was stored; nil where that is not known, as accesses move the time.
  let lastModified: UnixTime?

  init(_ header: RecordHeader) {
    guard !header.flags.contains(.streamIncomplete) else {
      self = .unknown
      return
    }
    tag = EntityTag(header)
    lastModified = header.ttl > 0 ? header.lastUpdate : nil
  }

  private init(tag: EntityTag) {
    self.tag = tag
    lastModified = nil
  }

  /// Those of a blob that is still being written: a tag that no request names.
  static let unknown = Validators(tag: .unknown)
}
