/// `*`, or tags with commas.
struct TagList {
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
