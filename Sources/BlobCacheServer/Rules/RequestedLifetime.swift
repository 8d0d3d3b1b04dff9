internal import BlobRecord
internal import BlobStore

/// The time to live in a request: `X-BlobCache-TTL`, otherwise `s-maxage` or `max-age` of `Cache-Control`, otherwise
/// `Expires` relative to `Date`. Without any of them, the directory's default applies.
enum RequestedLifetime: Equatable {
  case directoryDefault
  case seconds(Int64)
  case never
  /// `no-store` or a time in the past: the blob must not be stored.
  case none

  static let fieldName = "X-BlobCache-TTL"
  /// The value of the field for a blob that never expires.
  static let endless = "never"

  /// - Throws: 400 for a malformed `X-BlobCache-TTL`. Malformed directives of `Cache-Control` are ignored. An `Expires`
  ///   that is not a date, such as `0`, is a time in the past (RFC 9111, 5.3).
  init(_ fields: HeaderFields, now: UnixTime) throws(Refusal) {
    if let text = fields[Self.fieldName] {
      guard let lifetime = RequestedLifetime(text) else {
        throw Refusal(
          400, "\(Self.fieldName) must be never, 0 for the default, or a duration such as 90, 90s, 10m, 6h, 30d")
      }
      self = lifetime
      return
    }
    let directives = fields.list("Cache-Control").map(Self.directives) ?? [:]
    if directives["no-store"] != nil {
      self = .none
    } else if let text = directives["s-maxage"] ?? directives["max-age"], let seconds = Self.digits(text) {
      self = seconds > 0 ? .seconds(seconds) : .none
    } else if let text = fields["Expires"] {
      let start = fields["Date"].flatMap { HTTPDate.time($0, now: now) } ?? now
      let expiry = HTTPDate.time(text, now: now) ?? start
      self = expiry > start ? .seconds(expiry.seconds - start.seconds) : .none
    } else {
      self = .directoryDefault
    }
  }

  /// Parses `never`, `0` for the default, or a duration in the format of the command-line tool.
  init?(_ text: String) {
    if text == Self.endless {
      self = .never
      return
    }
    let units: [(suffix: String, seconds: Int64)] = [("s", 1), ("m", 60), ("h", 3600), ("d", 86_400), ("w", 604_800)]
    let unit = units.first { text.hasSuffix($0.suffix) } ?? ("", 1)
    guard let count = Self.digits(text.dropLast(unit.suffix.count)) else { return nil }
    let (seconds, overflows) = count.multipliedReportingOverflow(by: unit.seconds)
    guard !overflows else { return nil }
    self = seconds == 0 ? .directoryDefault : .seconds(seconds)
  }

  var timeToLive: Duration? {
    switch self {
    case .directoryDefault, .none: nil
    case .seconds(let seconds): .seconds(seconds)
    case .never: .never
    }
  }

  private static func directives(_ value: String) -> [String: String] {
    var directives: [String: String] = [:]
    for part in value.split(separator: ",") {
      let pair = part.split(separator: "=", maxSplits: 1)
      guard let name = pair.first?.trimmingBlanks, !name.isEmpty else { continue }
      var text = pair.count > 1 ? pair[1].trimmingBlanks : ""
      // Quoted numbers are valid as well (RFC 9111, 5.2).
      if text.count > 1, text.hasPrefix("\""), text.hasSuffix("\"") { text = text.dropFirst().dropLast() }
      // Of two lifetimes, the shorter one applies, because RFC 9111, 4.2.1, allows no longer one than the first.
      if let other = directives[name.lowercased()], digits(other) ?? .max <= digits(text) ?? .max { continue }
      directives[name.lowercased()] = String(text)
    }
    return directives
  }

  /// Parses digits. A number that is too large becomes the maximum.
  private static func digits(_ text: some StringProtocol) -> Int64? {
    guard !text.isEmpty, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
    return Int64(text) ?? .max
  }
}

struct TagList {
  /// `nil` for `*`.
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
