#if canImport(FoundationEssentials)
  internal import FoundationEssentials
#else
  internal import Foundation
#endif

/// A content type that was sent with a blob, and is kept as its extended data.
struct MediaType {
  /// As it was sent, such as `text/plain; charset=utf-8`.
  let text: String
  /// The type, a slash and the subtype, in small letters.
  private let essence: String

  /// What nothing is known of.
  static let unknown = "application/octet-stream"
  private static let longest = 255

  /// - Returns: nil for anything but a type, a slash, a subtype, and parameters, in printable ASCII (RFC 9110, 8.3.1). A
  ///   browser may find another type in what is none.
  init?(_ text: String) {
    guard text.utf8.count <= Self.longest, text.utf8.allSatisfy({ (0x20..<0x7F).contains($0) }) else { return nil }
    let essence = text.prefix { $0 != ";" }
    let parts = essence.trimmingBlanks.split(separator: "/", omittingEmptySubsequences: false)
    guard parts.count == 2, parts.allSatisfy({ !$0.isEmpty && $0.utf8.allSatisfy(Self.isTokenByte) }),
      Self.areParameters(text[essence.endIndex...])
    else { return nil }
    self.text = text
    self.essence = essence.trimmingBlanks.lowercased()
  }

  /// Whether a text is any number of `; name=value`, whose values may stand in quotation marks.
  private static func areParameters(_ text: Substring) -> Bool {
    var rest = text.trimmingBlanks
    while !rest.isEmpty {
      guard rest.first == ";" else { return false }
      rest = rest.dropFirst().trimmingBlanks
      // A semicolon that nothing follows does no harm.
      guard !rest.isEmpty else { return true }
      let name = rest.prefix { $0 != "=" }
      guard !name.isEmpty, name.endIndex != rest.endIndex, name.utf8.allSatisfy(isTokenByte) else { return false }
      rest = rest[name.endIndex...].dropFirst()
      guard let afterValue = rest.first == "\"" ? behindQuoted(rest) : behindToken(rest) else { return false }
      rest = afterValue.trimmingBlanks
    }
    return true
  }

  private static func behindToken(_ text: Substring) -> Substring? {
    let rest = text.drop { isTokenByte($0.asciiValue ?? 0) }
    return rest.startIndex == text.startIndex ? nil : rest
  }

  /// What follows the closing quotation mark; nil if there is none.
  private static func behindQuoted(_ text: Substring) -> Substring? {
    var rest = text.dropFirst()
    while let character = rest.popFirst() {
      if character == "\"" { return rest }
      if character == "\\", rest.popFirst() == nil { return nil }
    }
    return nil
  }

  /// The content type among a blob's extended data, if that is what they are.
  init?(extendedData: Data?) {
    guard let extendedData, let text = String(validating: extendedData, as: UTF8.self) else { return nil }
    self.init(text)
  }

  /// What is answered as the type: what a page can run, or be, is octets that the page can make nothing of.
  var answeredText: String { isActive ? Self.unknown : text }

  /// Whether a browser may show it in place: images without scripts, audio and video.
  var isPassive: Bool {
    !isActive
      && (Self.shownImages.contains(essence) || essence.hasPrefix("audio/") || essence.hasPrefix("video/"))
  }

  /// Whether it is what a form of a page is sent as.
  var isForm: Bool { essence == "application/x-www-form-urlencoded" }

  private static let shownImages: Set = ["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"]

  /// Whether it is a script, a style, a document with either (SVG and other XML, HTML, PDF), or is made of other types.
  private var isActive: Bool {
    let marks = ["script", "css", "html", "xml", "svg", "wasm", "pdf"]
    return essence.hasPrefix("multipart/") || essence.hasPrefix("message/") || marks.contains { essence.contains($0) }
  }

  /// RFC 9110, 5.6.2.
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
  /// Without the blanks at both ends that header fields allow.
  var trimmingBlanks: Substring {
    func isBlank(_ character: Character) -> Bool { character == " " || character == "\t" }
    var text = drop(while: isBlank)
    while let last = text.last, isBlank(last) { text.removeLast() }
    return text
  }
}
