/// `If-Match` and `If-None-Match` of a request (RFC 9110, 13.1).
struct Preconditions {
  private let match: TagList?
  private let noneMatch: TagList?

  /// - Throws: 400 for a list that has something else than tags.
  init(_ fields: HeaderFields) throws(Refusal) {
    match = try fields.list("If-Match").map { value throws(Refusal) in try TagList(value, of: "If-Match") }
    noneMatch = try fields.list("If-None-Match").map { value throws(Refusal) in
      try TagList(value, of: "If-None-Match")
    }
  }

  var areAbsent: Bool { match == nil && noneMatch == nil }

  /// Whether `If-Match` holds.
  ///
  /// - Parameter tag: of what is stored; nil for nothing.
  func allowsMatch(_ tag: EntityTag?) -> Bool { match?.contains(tag, weakly: false) ?? true }

  /// Whether `If-None-Match` holds.
  func allowsNoneMatch(_ tag: EntityTag?) -> Bool { !(noneMatch?.contains(tag, weakly: true) ?? false) }

  /// - Throws: 412 where a change may not be made.
  func checkChange(of tag: EntityTag?) throws(Refusal) {
    guard allowsMatch(tag) else {
      throw Refusal(412, tag == nil ? "there is nothing to match" : "what is stored has another tag")
    }
    guard allowsNoneMatch(tag) else { throw Refusal(412, "there is such a blob already") }
  }
}

/// `*`, or tags with commas.
private struct TagList {
  /// nil for `*`.
  private let tags: [(text: Substring, isWeak: Bool)]?

  init(_ value: String, of name: String) throws(Refusal) {
    var rest = value[...]
    func skipBlanks() { rest = rest.drop { $0 == " " || $0 == "\t" } }
    skipBlanks()
    if rest.drop(while: { $0 == "*" || $0 == " " || $0 == "\t" }).isEmpty, rest.utf8.count(where: { $0 == 0x2A }) == 1 {
      tags = nil
      return
    }
    var tags: [(text: Substring, isWeak: Bool)] = []
    while !rest.isEmpty {
      if rest.first == "," {
        rest = rest.dropFirst()
        skipBlanks()
        continue
      }
      let isWeak = rest.hasPrefix("W/")
      if isWeak { rest = rest.dropFirst(2) }
      guard rest.first == "\"", let end = rest.dropFirst().firstIndex(of: "\"") else {
        throw Refusal(400, "\(name) has something else than tags in quotation marks")
      }
      tags.append((rest[...end], isWeak))
      rest = rest[rest.index(after: end)...]
      skipBlanks()
      guard rest.isEmpty || rest.first == "," else {
        throw Refusal(400, "\(name) has something else than tags in quotation marks")
      }
    }
    guard !tags.isEmpty else { throw Refusal(400, "\(name) is empty") }
    self.tags = tags
  }

  func contains(_ tag: EntityTag?, weakly: Bool) -> Bool {
    guard let tag else { return false }
    guard let tags else { return true }
    return tags.contains { $0.text == tag.text && (weakly || !$0.isWeak && !tag.isWeak) }
  }
}
