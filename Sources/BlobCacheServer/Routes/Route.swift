internal import BlobRecord

/// What a path leads to.
enum Route {
  case blob(BlobKey)
  /// Records, page by page.
  case list(ListQuery)
  /// The bytes of a record's file.
  case record(BlobKey)
  /// Below the prefix of a build tool.
  case tool(ToolRoute)
  case metrics
  /// What the directory holds and has done, and its remote tier.
  case status
  /// Whether the process answers.
  case health
  /// Whether the directory can be used.
  case readiness
  case viewer(ViewerRoute)
  /// The viewer's path without the slash at its end, below which its pages lie.
  case viewerRoot

  private static let blobs = "/v1/blobs/"
  private static let records = "/v1/records/"

  /// - Throws: 404 for other paths; 414 for a key that is too long; 400 for one that is empty or has wrong escapes, and for wrong parameters of a list.
  init(_ target: RequestTarget) throws(Refusal) {
    let path = target.path
    if path.hasPrefix(Self.blobs) {
      self = .blob(try Self.key(path.dropFirst(Self.blobs.count)))
    } else if path.hasPrefix(Self.records) {
      self = .record(try Self.key(path.dropFirst(Self.records.count)))
    } else if path == "/v1/blobs" {
      self = .list(try ListQuery(target))
    } else if path == "/metrics" {
      self = .metrics
    } else if path == "/status" {
      self = .status
    } else if path == "/healthz" {
      self = .health
    } else if path == "/readyz" {
      self = .readiness
    } else if let page = ViewerRoute(path: path) {
      self = .viewer(page)
    } else if path == "/ui" {
      self = .viewerRoot
    } else if let tool = try ToolRoute(target) {
      self = .tool(tool)
    } else {
      throw Refusal(404, "there is nothing at this path")
    }
  }

  private static func key(_ text: Substring) throws(Refusal) -> BlobKey {
    let key = try RequestTarget.decoded(text)
    guard !key.isEmpty else { throw Refusal(400, "the key is empty, and a key has one character at least") }
    guard key.utf8.count <= RecordExtension.maximumKeyByteCount else {
      throw Refusal(
        414, "the key has \(key.utf8.count) bytes, and a key has at most \(RecordExtension.maximumKeyByteCount)")
    }
    return BlobKey(key)
  }

  /// For what is counted.
  var name: String {
    switch self {
    case .blob: "blob"
    case .list: "list"
    case .record: "record"
    case .tool(let tool): tool.name
    case .metrics: "metrics"
    case .status: "status"
    case .health: "health"
    case .readiness: "readiness"
    case .viewer, .viewerRoot: "viewer"
    }
  }

  var methods: [String] {
    switch self {
    case .blob: ["GET", "HEAD", "PUT", "DELETE", "POST", "OPTIONS"]
    case .tool(let tool): tool.methods
    case .list, .record, .metrics, .status, .health, .readiness, .viewerRoot: ["GET", "HEAD", "OPTIONS"]
    case .viewer(let page): page.methods
    }
  }

  /// Whether a server for one browser answers everybody.
  var isOpen: Bool {
    switch self {
    case .health: true
    case .viewer(let page): page.isOpen
    default: false
    }
  }

  var allowedMethods: String { methods.joined(separator: ", ") }

  /// What a caller must be allowed to do; nil for what anybody may.
  func permission(for method: String) -> Permission? {
    guard method != "OPTIONS" else { return nil }
    return switch self {
    case .blob(let key):
      Permission(scope: ["GET", "HEAD"].contains(method) ? .read : .write, reach: .key(key.string))
    case .record(let key): Permission(scope: .read, reach: .key(key.string))
    case .tool(let tool): tool.permission(for: method)
    case .list(let query): Permission(scope: .read, reach: .prefix(query.prefix))
    case .metrics, .status: Permission(scope: .read, reach: .directory)
    // Those who watch over the process ask without a token.
    case .health, .readiness, .viewerRoot: nil
    case .viewer(let page): page.permission
    }
  }

  /// What an answer to OPTIONS says.
  var optionFields: HeaderFields {
    var fields: HeaderFields = ["Allow": allowedMethods]
    if case .tool(let tool) = self { for field in tool.optionFields.all { fields.append(field.name, field.value) } }
    return fields
  }
}
