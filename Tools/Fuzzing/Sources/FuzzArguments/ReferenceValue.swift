/// An independent implementation of the value grammars in Spec/CommandLine.md.
enum ReferenceValue: CaseIterable {
  case duration
  case size
  case time

  func arguments(_ text: String) -> [String] {
    switch self {
    case .duration: ["list", "--default-ttl=\(text)", "directory"]
    case .size: ["collect", "--size-limit=\(text)", "directory"]
    case .time: ["list", "--now=\(text)", "directory"]
    }
  }

  /// Returns whether the text is a valid value, or `nil` if this reference does not decide it.
  func accepts(_ text: String) -> Bool? {
    let characters = Array(text.unicodeScalars)
    switch self {
    case .duration:
      return Self.number(characters, units: ["s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604_800]) != nil
    case .size:
      // A limit must be greater than zero.
      let units: [String: Int128] = [
        "KB": 1000, "MB": 1000 * 1000, "GB": 1000 * 1000 * 1000, "TB": 1000 * 1000 * 1000 * 1000, "KiB": 1 << 10,
        "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40,
      ]
      return Self.number(characters, units: units).map { $0 > 0 } ?? false
    case .time:
      // Tests compare dates with a calendar. This check only rejects text that cannot be a date.
      let allowed = characters.allSatisfy { "0123456789-+:.TZ".unicodeScalars.contains($0) }
      let isNumber = Self.number(characters, units: [:]) != nil
      return !allowed || characters.isEmpty ? false : isNumber ? true : nil
    }
  }

  /// Parses digits with an optional unit. Returns `nil` for other text and above the range of `Int64`.
  private static func number(_ characters: [Unicode.Scalar], units: [String: Int128]) -> Int128? {
    var value: Int128 = 0
    var rest = characters[...]
    while let first = rest.first, ("0"..."9").contains(first) {
      value = value * 10 + Int128(first.value - 48)
      guard value <= Int128(Int64.max) else { return nil }
      rest.removeFirst()
    }
    guard rest.count < characters.count else { return nil }
    if rest.isEmpty { return value }
    var unit = String.UnicodeScalarView()
    unit.append(contentsOf: rest)
    guard let factor = units.first(where: { $0.key.unicodeScalars.elementsEqual(unit) })?.value else { return nil }
    return value * factor <= Int128(Int64.max) ? value * factor : nil
  }
}
