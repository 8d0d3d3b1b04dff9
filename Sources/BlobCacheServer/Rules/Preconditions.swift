internal import BlobRecord
internal import Locks

/// `If-Match`, `If-None-Match` and their kin with dates (RFC 9110, 13.1).
struct Preconditions: Sendable {
  private let match: TagList?
  private let noneMatch: TagList?
  /// nil where a tag is asked for, which comes first (RFC 9110, 13.2.2), and for what is no date.
  private let unmodifiedSince: UnixTime?
  private let modifiedSince: UnixTime?

  /// - Throws: 400 for a list that has something else than tags.
  init(_ fields: HeaderFields) throws(Refusal) {
    match = try fields.list("If-Match").map { value throws(Refusal) in try TagList(value, of: "If-Match") }
    noneMatch = try fields.list("If-None-Match").map { value throws(Refusal) in
      try TagList(value, of: "If-None-Match")
    }
    unmodifiedSince = match == nil ? fields["If-Unmodified-Since"].flatMap(HTTPDate.time) : nil
    modifiedSince = noneMatch == nil ? fields["If-Modified-Since"].flatMap(HTTPDate.time) : nil
  }

  /// Whether there is none for a change.
  var areAbsent: Bool { match == nil && noneMatch == nil && unmodifiedSince == nil }

  /// Whether what is stored is what the request wants.
  ///
  /// - Parameter stored: nil for no live record.
  func allowsMatch(_ stored: Validators?) -> Bool {
    if let match { return match.contains(stored?.tag, weakly: false) }
    guard let unmodifiedSince, let modified = stored?.lastModified else { return true }
    return modified <= unmodifiedSince
  }

  /// Whether what is stored is something else than the client has.
  func allowsNoneMatch(_ stored: Validators?) -> Bool {
    if let noneMatch { return !noneMatch.contains(stored?.tag, weakly: true) }
    guard let modifiedSince, let modified = stored?.lastModified else { return true }
    return modified > modifiedSince
  }

  /// Whether a change may be made of what is stored.
  func allowChange(of stored: Validators?) -> Bool {
    // `If-Modified-Since` is for GET and HEAD.
    allowsMatch(stored) && (noneMatch == nil || allowsNoneMatch(stored))
  }

  /// - Throws: 412 where a change may not be made.
  func checkChange(of stored: Validators?) throws(Refusal) {
    guard allowsMatch(stored) else {
      throw Refusal(412, stored == nil ? "there is nothing to match" : "what is stored is another payload")
    }
    guard allowChange(of: stored) else { throw Refusal(412, "there is such a blob already") }
  }
}

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

/// A change under the preconditions of its request, which are judged while no process can change the key otherwise.
final class JudgedChange: Sendable {
  private let preconditions: Preconditions
  /// What was there; nil for nothing.
  private let found = Lock<Validators?>(nil)

  init(_ preconditions: Preconditions) { self.preconditions = preconditions }

  /// - Parameter header: is told each time the change is about to be made.
  func allows(_ header: RecordHeader?) -> Bool {
    let stored = header.map(Validators.init)
    note(stored)
    return preconditions.allowChange(of: stored)
  }

  /// For a change that is made without a judgement.
  func note(_ stored: Validators?) { found.withLock { $0 = stored } }

  var hasFound: Bool { found.withLock { $0 != nil } }

  /// Why the change was not made.
  var refusal: Refusal {
    do throws(Refusal) {
      try preconditions.checkChange(of: found.withLock { $0 })
    } catch {
      return error
    }
    return Refusal(412, "the condition does not hold")
  }
}
