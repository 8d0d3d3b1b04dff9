/// Relative addresses of the viewer's pages, which all lie side by side: a path before them changes nothing.
///
/// A key is a parameter. In a path, browsers would take keys such as `..` away.
struct ViewerLink {
  private(set) var text: String
  private var hasParameters = false

  init(_ page: ViewerRoute) { text = page == .overview ? "./" : page.rawValue }

  /// The address with one more parameter; the same without a value.
  func with(_ name: String, _ value: String?) -> ViewerLink {
    guard let value else { return self }
    var link = self
    link.text += (hasParameters ? "&" : "?") + name + "=" + Self.escaped(value)
    link.hasParameters = true
    return link
  }

  /// The page of one record.
  static func record(_ name: RecordReference) -> ViewerLink {
    switch name {
    case .key(let key): ViewerLink(.record).with("key", key)
    case .file(let file): ViewerLink(.record).with("file", file)
    }
  }

  /// All but the unreserved characters of RFC 3986, 2.3, as escapes.
  private static func escaped(_ value: String) -> String {
    var text = ""
    for byte in value.utf8 {
      switch byte {
      case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
        UInt8(ascii: "~"):
        text.unicodeScalars.append(Unicode.Scalar(byte))
      default: text += "%" + Quantities.hexadecimal(byte, digits: 2)
      }
    }
    return text
  }
}

extension HTML.StringInterpolation {
  mutating func appendInterpolation(_ link: ViewerLink) { appendInterpolation(link.text) }
}

/// What a page of a record is asked for by: its key, or its file where no key is known.
enum RecordReference: Hashable, Sendable {
  case key(String)
  /// Relative to the directory.
  case file(String)

  /// - Throws: 400 without a key and a file.
  init(_ parameter: (String) -> String?) throws(Refusal) {
    if let key = parameter("key"), !key.isEmpty {
      self = .key(key)
    } else if let file = parameter("file"), !file.isEmpty {
      self = .file(file)
    } else {
      throw Refusal(400, "the page of a record needs its key or its file")
    }
  }
}
