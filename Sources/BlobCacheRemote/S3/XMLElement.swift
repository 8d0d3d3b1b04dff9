/// A minimal XML parser for S3 responses, which ignores attributes, comments, processing instructions and namespace
/// prefixes. It refuses document type declarations, which excludes entity attacks.
struct XMLElement: Equatable {
  let name: String
  private(set) var text = ""
  private(set) var children: [XMLElement] = []

  subscript(name: String) -> String? { children.first { $0.name == name }?.text }

  private static let maximumDepth = 16

  /// - Complexity: O(*n*) for *n* bytes.
  init?(_ bytes: some Sequence<UInt8>) {
    var reader = Reader(bytes: Array(bytes))
    guard let root = reader.root() else { return nil }
    self = root
  }

  private init(name: String) { self.name = name }

  private struct Reader {
    let bytes: [UInt8]
    var position = 0

    mutating func root() -> XMLElement? {
      _ = skip("\u{FEFF}")
      while true {
        skipSpaces()
        if skip("<?") {
          guard pass("?>") != nil else { return nil }
        } else if skip("<!--") {
          guard pass("-->") != nil else { return nil }
        } else {
          return skip("<") ? element(depth: 0) : nil
        }
      }
    }

    private mutating func element(depth: Int) -> XMLElement? {
      guard depth < XMLElement.maximumDepth, let name = name() else { return nil }
      var element = XMLElement(name: name)
      guard let isEmpty = endOfTag() else { return nil }
      if isEmpty { return element }
      while position < bytes.count {
        if skip("</") {
          guard self.name() == name else { return nil }
          skipSpaces()
          return skip(">") ? element : nil
        } else if skip("<!--") {
          guard pass("-->") != nil else { return nil }
        } else if skip("<![CDATA[") {
          guard let raw = pass("]]>"), let text = String(validating: raw, as: UTF8.self) else { return nil }
          element.text += text
        } else if skip("<?") {
          guard pass("?>") != nil else { return nil }
        } else if skip("<") {
          guard let child = self.element(depth: depth + 1) else { return nil }
          element.children.append(child)
        } else {
          guard let text = text() else { return nil }
          element.text += text
        }
      }
      return nil
    }

    private mutating func name() -> String? {
      let start = position
      while position < bytes.count, !" \t\r\n/>=<".utf8.contains(bytes[position]) { position += 1 }
      let whole = String(validating: bytes[start..<position], as: UTF8.self)
      guard let name = whole?.split(separator: ":").last, bytes[start] != UInt8(ascii: "!") else { return nil }
      return String(name)
    }

    /// Returns `true` for an empty-element tag, and `nil` for an incomplete tag.
    private mutating func endOfTag() -> Bool? {
      while position < bytes.count {
        if skip("/>") { return true }
        if skip(">") { return false }
        if skip("\"") {
          guard pass("\"") != nil else { return nil }
        } else if skip("'") {
          guard pass("'") != nil else { return nil }
        } else if bytes[position] == UInt8(ascii: "<") {
          return nil
        } else {
          position += 1
        }
      }
      return nil
    }

    private mutating func text() -> String? {
      let start = position
      while position < bytes.count, bytes[position] != UInt8(ascii: "<") { position += 1 }
      guard let raw = String(validating: bytes[start..<position], as: UTF8.self) else { return nil }
      guard raw.utf8.contains(UInt8(ascii: "&")) else { return raw }
      var text = String.UnicodeScalarView()
      // Unicode scalars are used because a combining mark after `&` or `;` would form one `Character` with it.
      for (index, part) in raw.unicodeScalars.split(separator: "&", omittingEmptySubsequences: false).enumerated() {
        guard index > 0 else {
          text += part
          continue
        }
        guard let end = part.firstIndex(of: ";"), let character = Self.character(Substring(part[..<end])) else {
          return nil
        }
        text.append(character)
        text += part[part.index(after: end)...]
      }
      return String(text)
    }

    private static func character(_ entity: Substring) -> Unicode.Scalar? {
      switch entity {
      case "amp": return "&"
      case "lt": return "<"
      case "gt": return ">"
      case "quot": return "\""
      case "apos": return "'"
      default:
        let number =
          entity.hasPrefix("#x")
          ? UInt32(entity.dropFirst(2), radix: 16) : entity.hasPrefix("#") ? UInt32(entity.dropFirst()) : nil
        return number.flatMap { Unicode.Scalar($0) }
      }
    }

    private mutating func skipSpaces() {
      while position < bytes.count, " \t\r\n".utf8.contains(bytes[position]) { position += 1 }
    }

    private mutating func skip(_ text: String) -> Bool {
      guard bytes[position...].starts(with: text.utf8) else { return false }
      position += text.utf8.count
      return true
    }

    /// Returns the bytes before a text, and skips the text as well.
    private mutating func pass(_ text: String) -> ArraySlice<UInt8>? {
      let start = position
      while position < bytes.count {
        if skip(text) { return bytes[start..<(position - text.utf8.count)] }
        position += 1
      }
      return nil
    }
  }
}
