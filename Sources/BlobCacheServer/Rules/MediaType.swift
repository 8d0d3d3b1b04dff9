#if canImport(FoundationEssentials)
  internal import FoundationEssentials
#else
  internal import Foundation
#endif

/// A content type that was sent with a blob, and is kept as its extended data.
struct MediaType {
  /// As it was sent, such as `text/plain; charset=utf-8`.
  let text: String
  private let essence: String

  /// What nothing is known of.
  static let unknown = "application/octet-stream"
  private static let longest = 255

  /// - Returns: nil for anything but a type, a slash, a subtype, and parameters in printable ASCII.
  init?(_ text: String) {
    guard text.utf8.count <= Self.longest, text.utf8.allSatisfy({ (0x20..<0x7F).contains($0) }) else { return nil }
    let essence = text.prefix { $0 != ";" }.trimmingBlanks
    let parts = essence.split(separator: "/", omittingEmptySubsequences: false)
    guard parts.count == 2, parts.allSatisfy({ !$0.isEmpty && $0.utf8.allSatisfy(Self.isTokenByte) }) else {
      return nil
    }
    self.text = text
    self.essence = essence.lowercased()
  }

  /// The content type among a blob's extended data, if that is what they are.
  init?(extendedData: Data?) {
    guard let extendedData, let text = String(validating: extendedData, as: UTF8.self) else { return nil }
    self.init(text)
  }

  /// Whether a browser may show it in place: images, audio and video, which run nothing. SVG has scripts.
  var isPassive: Bool {
    let kinds = ["image/", "audio/", "video/"]
    return kinds.contains { essence.hasPrefix($0) } && !essence.hasPrefix("image/svg")
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
