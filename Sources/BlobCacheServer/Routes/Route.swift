internal import BlobRecord

enum Route {
  case blob(BlobKey)
  case list(ListQuery)
  case record(BlobKey)
  case tool(ToolRoute)
  case metrics
  case status
  case health
  case readiness
  case viewer(ViewerRoute)
  /// The viewer's path without a trailing slash, which redirects to its start page.
  case viewerRoot

  private static let blobs = "/v1/blobs/"
  private static let records = "/v1/records/"

  /// - Throws: 404 for an unknown path; 414 for a key that is too long; 400 for an invalid key or list parameter.
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

  /// A Boolean value that indicates whether the route is available without the cookie of the entrance.
  var isOpen: Bool {
    switch self {
    case .health: true
    case .viewer(let page): page.isOpen
    default: false
    }
  }

  var allowedMethods: String { methods.joined(separator: ", ") }

  func permission(for method: String) -> Permission? {
    guard method != "OPTIONS" else { return nil }
    return switch self {
    case .blob(let key):
      Permission(scope: ["GET", "HEAD"].contains(method) ? .read : .write, reach: .key(key.string))
    case .record(let key): Permission(scope: .read, reach: .key(key.string))
    case .tool(let tool): tool.permission(for: method)
    case .list(let query): Permission(scope: .read, reach: .prefix(query.prefix))
    case .metrics, .status: Permission(scope: .read, reach: .directory)
    // Monitoring systems send requests without a token.
    case .health, .readiness, .viewerRoot: nil
    case .viewer(let page): page.permission
    }
  }

  /// Returns the additional permission for a request that locks or unlocks a blob, or stores one that never expires.
  func permissionToPin(_ request: ServerRequest, _ target: RequestTarget) -> Permission? {
    guard case .blob(let key) = self else { return nil }
    let isPinning =
      switch request.method {
      case "PUT": StoreOrder.pins(request.fields)
      case "POST": target.query.contains { ["lock", "unlock"].contains($0.name) }
      default: false
      }
    return isPinning ? Permission(scope: .pin, reach: .key(key.string)) : nil
  }

  var optionFields: HeaderFields {
    var fields: HeaderFields = ["Allow": allowedMethods]
    if case .tool(let tool) = self { for field in tool.optionFields.all { fields.append(field.name, field.value) } }
    return fields
  }
}
