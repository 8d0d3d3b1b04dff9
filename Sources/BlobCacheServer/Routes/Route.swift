internal import BlobRecord

/// What a path leads to.
enum Route {
  case blob(BlobKey)
  /// Whether the process answers.
  case health
  /// Whether the directory can be used.
  case readiness

  private static let blobs = "/v1/blobs/"

  /// - Throws: 404 for other paths; 400 for a key that is empty or has wrong escapes.
  init(_ target: RequestTarget) throws(Refusal) {
    let path = target.path
    if path.hasPrefix(Self.blobs) {
      let key = try RequestTarget.decoded(path.dropFirst(Self.blobs.count))
      guard !key.isEmpty else { throw Refusal(400, "the key is empty, and a key has one character at least") }
      self = .blob(BlobKey(key))
    } else if path == "/healthz" {
      self = .health
    } else if path == "/readyz" {
      self = .readiness
    } else {
      throw Refusal(404, "there is nothing at this path")
    }
  }

  var methods: [String] {
    switch self {
    case .blob: ["GET", "HEAD", "PUT", "DELETE", "POST", "OPTIONS"]
    case .health, .readiness: ["GET", "HEAD", "OPTIONS"]
    }
  }

  var allowedMethods: String { methods.joined(separator: ", ") }
}
