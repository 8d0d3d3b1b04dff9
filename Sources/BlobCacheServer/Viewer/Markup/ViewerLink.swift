internal import TextFormats

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
    link.text += (hasParameters ? "&" : "?") + name + "=" + PercentEncoding.encoded(value)
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
