internal import BlobRecord
internal import Locks

/// The preconditions of a request (RFC 9110, 13.1).
struct Preconditions: Sendable {
  private let match: TagList?
  private let noneMatch: TagList?
  /// A tag condition takes precedence over a date (RFC 9110, 13.2.2). Invalid dates are ignored.
  private let unmodifiedSince: UnixTime?
  private let modifiedSince: UnixTime?

  init(_ fields: HeaderFields, now: UnixTime) throws(Refusal) {
    match = try fields.list("If-Match").map { value throws(Refusal) in try TagList(value, of: "If-Match") }
    noneMatch = try fields.list("If-None-Match").map { value throws(Refusal) in
      try TagList(value, of: "If-None-Match")
    }
    unmodifiedSince = match == nil ? fields["If-Unmodified-Since"].flatMap { HTTPDate.time($0, now: now) } : nil
    modifiedSince = noneMatch == nil ? fields["If-Modified-Since"].flatMap { HTTPDate.time($0, now: now) } : nil
  }

  var areAbsent: Bool { match == nil && noneMatch == nil && unmodifiedSince == nil }

  func allowsMatch(_ stored: Validators?) -> Bool {
    if let match { return match.contains(stored?.tag, weakly: false) }
    guard let unmodifiedSince, let modified = stored?.lastModified else { return true }
    return modified <= unmodifiedSince
  }

  func allowsNoneMatch(_ stored: Validators?) -> Bool {
    if let noneMatch { return !noneMatch.contains(stored?.tag, weakly: true) }
    guard let modifiedSince, let modified = stored?.lastModified else { return true }
    return modified > modifiedSince
  }

  func allowChange(of stored: Validators?) -> Bool {
    // `If-Modified-Since` applies only to GET and HEAD.
    allowsMatch(stored) && (noneMatch == nil || allowsNoneMatch(stored))
  }

  func checkChange(of stored: Validators?) throws(Refusal) {
    guard allowsMatch(stored) else {
      throw Refusal(412, stored == nil ? "there is nothing to match" : "what is stored is another payload")
    }
    guard allowChange(of: stored) else { throw Refusal(412, "there is such a blob already") }
  }
}

struct Validators {
  let tag: EntityTag
  /// The time of the store, or `nil` if it is unknown because accesses change the record's time.
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

  /// The validators of an unfinished blob, with a tag that no request can contain.
  static let unknown = Validators(tag: .unknown)
}

/// The entity tag of a payload, which consists of its checksum and size.
///
/// Equal payloads have equal tags, regardless of their store times. Two payloads of the same key and size share a tag
/// with a probability of 1 in 2^32. A record without a checksum has a weak tag of its update time and size.
struct EntityTag: Hashable {
  let text: String
  let isWeak: Bool

  /// The tag of an unfinished blob. Without quotation marks, it equals no tag in a request.
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

/// A change under preconditions, which are evaluated while no other process can change the key.
final class JudgedChange: Sendable {
  private let preconditions: Preconditions
  private let found = Lock<Validators?>(nil)

  init(_ preconditions: Preconditions) { self.preconditions = preconditions }

  /// Evaluates the preconditions. A commit calls this method before each attempt.
  func allows(_ header: RecordHeader?) -> Bool {
    let stored = header.map(Validators.init)
    note(stored)
    return preconditions.allowChange(of: stored)
  }

  func note(_ stored: Validators?) { found.withLock { $0 = stored } }

  var hasFound: Bool { found.withLock { $0 != nil } }

  var refusal: Refusal {
    do throws(Refusal) {
      try preconditions.checkChange(of: found.withLock { $0 })
    } catch {
      return error
    }
    return Refusal(412, "the condition does not hold")
  }
}
