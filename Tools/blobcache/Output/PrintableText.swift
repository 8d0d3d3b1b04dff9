extension String {
  /// The text with all characters escaped that control a terminal.
  ///
  /// A key must not move the cursor, ring the bell, or reverse the direction of text.
  package var printable: String {
    guard unicodeScalars.contains(where: \.isObeyed) else { return self }
    var text = ""
    for scalar in unicodeScalars {
      switch scalar {
      case "\n": text += "\\n"
      case "\r": text += "\\r"
      case "\t": text += "\\t"
      case _ where scalar.isObeyed: text += "\\u{\(String(scalar.value, radix: 16, uppercase: true))}"
      default: text.unicodeScalars.append(scalar)
      }
    }
    return text
  }
}

extension Unicode.Scalar {
  /// Control characters, line and paragraph separators, and characters that change the direction of text.
  fileprivate var isObeyed: Bool {
    switch value {
    case 0x00...0x1F, 0x7F...0x9F, 0x200E...0x200F, 0x2028...0x202E, 0x2066...0x2069: true
    default: false
    }
  }
}
