internal import TextFormats

/// A relative link to a page. All pages are siblings, so a path prefix has no effect. A key is a query parameter,
/// because browsers would remove a key such as `..` from a path.
struct ViewerLink {
  private(set) var text: String
  private var hasParameters = false

  init(_ page: ViewerRoute) { text = page == .overview ? "./" : page.rawValue }

  func with(_ name: String, _ value: String?) -> ViewerLink {
    guard let value else { return self }
    var link = self
    link.text += (hasParameters ? "&" : "?") + name + "=" + PercentEncoding.encoded(value)
    link.hasParameters = true
    return link
  }

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

enum RecordReference: Hashable, Sendable {
  case key(String)
  case file(String)

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
