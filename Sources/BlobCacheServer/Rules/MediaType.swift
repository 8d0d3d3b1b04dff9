/// A content type that was sent with a blob, and is stored as its extended data.
struct MediaType {
  let text: String
  /// Passive content may be displayed inline: images without scripts, audio and video.
  let isPassive: Bool
  let isForm: Bool
  private let isActive: Bool

  static let unknown = "application/octet-stream"
  private static let longest = 1023

  /// The check (RFC 9110, 8.3.1) is strict, because a browser might derive another type from an invalid one.
  init?(_ text: String) {
    // Bytes instead of characters are ten times as fast, and each GET parses a type.
    let bytes = text.utf8
    guard bytes.count <= Self.longest, bytes.allSatisfy({ (0x20..<0x7F).contains($0) }) else { return nil }
    let essence = bytes.prefix { $0 != UInt8(ascii: ";") }
    let parts = essence.trimmingBlanks.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
    guard parts.count == 2, parts.allSatisfy({ !$0.isEmpty && $0.allSatisfy(Self.isTokenByte) }),
      Self.areParameters(bytes[essence.endIndex...])
    else { return nil }
    self.text = text
    let kind = String(Substring(essence.trimmingBlanks)).lowercased()
    isForm = kind == "application/x-www-form-urlencoded"
    isActive = Self.isActive(kind)
    isPassive =
      !isActive && (Self.shownImages.contains(kind) || kind.hasPrefix("audio/") || kind.hasPrefix("video/"))
  }

  /// Accepts `; name=value` any number of times, with optionally quoted values.
  private static func areParameters(_ text: Substring.UTF8View) -> Bool {
    var rest = text.trimmingBlanks
    while !rest.isEmpty {
      guard rest.first == UInt8(ascii: ";") else { return false }
      rest = rest.dropFirst().trimmingBlanks
      // A trailing semicolon is harmless.
      guard !rest.isEmpty else { return true }
      let name = rest.prefix { $0 != UInt8(ascii: "=") }
      guard !name.isEmpty, name.endIndex != rest.endIndex, name.allSatisfy(isTokenByte) else { return false }
      rest = rest[name.endIndex...].dropFirst()
      guard let afterValue = rest.first == UInt8(ascii: "\"") ? behindQuoted(rest) : behindToken(rest) else {
        return false
      }
      rest = afterValue.trimmingBlanks
    }
    return true
  }

  private static func behindToken(_ text: Substring.UTF8View) -> Substring.UTF8View? {
    let rest = text.drop(while: isTokenByte)
    return rest.startIndex == text.startIndex ? nil : rest
  }

  private static func behindQuoted(_ text: Substring.UTF8View) -> Substring.UTF8View? {
    var rest = text.dropFirst()
    while let byte = rest.popFirst() {
      if byte == UInt8(ascii: "\"") { return rest }
      if byte == UInt8(ascii: "\\"), rest.popFirst() == nil { return nil }
    }
    return nil
  }

  /// Extended data with another meaning is not a content type.
  init?(extendedData: Data?) {
    guard let extendedData, let text = String(validating: extendedData, as: UTF8.self) else { return nil }
    self.init(text)
  }

  /// Content that a page could execute or display as a document is sent as octets instead.
  var answeredText: String { isActive ? Self.unknown : text }

  private static let shownImages: Set = ["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"]
  private static let activeMarks = ["script", "css", "html", "xml", "svg", "wasm", "pdf"].map { Array($0.utf8) }

  /// Active types are scripts, styles, documents that contain either (SVG, other XML, HTML, PDF), and composite types.
  private static func isActive(_ kind: String) -> Bool {
    if kind.hasPrefix("multipart/") || kind.hasPrefix("message/") { return true }
    var rest = kind.utf8[...]
    while !rest.isEmpty {
      if activeMarks.contains(where: { rest.starts(with: $0) }) { return true }
      rest = rest.dropFirst()
    }
    return false
  }

  /// Token characters of RFC 9110, 5.6.2.
  private static func isTokenByte(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "a")...UInt8(ascii: "z"):
      true
    default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
    }
  }
}

extension Substring {
  /// Header fields allow leading and trailing spaces and tabs.
  var trimmingBlanks: Substring { Substring(utf8.trimmingBlanks) }
}

extension Substring.UTF8View {
  fileprivate var trimmingBlanks: Substring.UTF8View {
    func isBlank(_ byte: UInt8) -> Bool { byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") }
    var text = drop(while: isBlank)
    while let last = text.last, isBlank(last) { text.removeLast() }
    return text
  }
}
