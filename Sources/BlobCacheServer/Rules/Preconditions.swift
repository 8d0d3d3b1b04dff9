internal import BlobRecord

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
