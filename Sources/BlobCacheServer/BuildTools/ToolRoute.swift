internal import BlobRecord

/// What a path of a build tool leads to.
struct ToolRoute {
  let tool: BuildTool
  let resource: Resource

  enum Resource {
    case entry(BlobKey)
    /// A blob that is named after its bytes.
    case content(BlobKey, ContentDigest)
    /// What WebDAV takes for a directory: keys with a beginning. There is one wherever a client looks.
    case collection(prefix: String)
    /// A product of Turborepo's, with what belongs to it.
    case artifact(BlobKey)
    case artifactQuery(team: String?)
    case events(team: String?)
    case status(team: String?)
  }

  /// - Returns: nil for a path of no build tool.
  /// - Throws: 400 for a name that the tool does not make; 404 for a path without a meaning.
  init?(_ target: RequestTarget) throws(Refusal) {
    let parts = target.path.dropFirst().split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
    guard let first = parts.first, let tool = BuildTool(rawValue: String(first)) else { return nil }
    self.tool = tool
    let path = try ToolPath(parts.count > 1 ? parts[1] : "")
    switch tool {
    case .bazel: resource = try Self.bazel(path)
    case .turbo: resource = try Self.turbo(path, target)
    case .sccache where path.endsWithSlash: resource = .collection(prefix: Self.prefix(of: path))
    case .ccache, .sccache, .gradle: resource = .entry(try Self.key(of: tool, path))
    }
  }

  private static func prefix(of path: ToolPath) -> String {
    ([BuildTool.sccache.rawValue] + path.names).map { $0 + "/" }.joined()
  }

  private static func key(of tool: BuildTool, _ path: ToolPath) throws(Refusal) -> BlobKey {
    guard !path.endsWithSlash else { throw Refusal(404, "there is nothing at this path") }
    return BlobKey(([tool.rawValue] + path.names).joined(separator: "/"))
  }

  /// `ac/` or `cas/` and a digest, behind the names of an instance or none.
  private static func bazel(_ path: ToolPath) throws(Refusal) -> Resource {
    guard !path.endsWithSlash, path.names.count > 1 else { throw Refusal(404, "there is nothing at this path") }
    let key = try key(of: .bazel, path)
    guard let digest = path.names.last.flatMap(ContentDigest.init) else {
      throw Refusal(400, "a name is the SHA-256 of what it is for, as 64 hexadecimal digits")
    }
    switch path.names[path.names.count - 2] {
    case "ac": return .entry(key)
    case "cas": return .content(key, digest)
    default: throw Refusal(404, "there is nothing at this path")
    }
  }

  private static func turbo(_ path: ToolPath, _ target: RequestTarget) throws(Refusal) -> Resource {
    guard path.names.starts(with: ["v8", "artifacts"]), !path.endsWithSlash, path.names.count < 4 else {
      throw Refusal(404, "there is nothing at this path")
    }
    let team = try TurboArtifact.team(of: target)
    guard path.names.count == 3 else { return .artifactQuery(team: team) }
    switch path.names[2] {
    case "events": return .events(team: team)
    case "status": return .status(team: team)
    case let hash: return .artifact(try TurboArtifact.key(ofHash: hash, team: team))
    }
  }
}

extension ToolRoute {
  /// For what is counted.
  var name: String {
    switch (tool, resource) {
    case (.bazel, .entry): "bazel-ac"
    case (.bazel, _): "bazel-cas"
    default: tool.rawValue
    }
  }

  var methods: [String] {
    switch resource {
    case .entry where tool == .bazel: ["GET", "HEAD", "PUT", "OPTIONS"]
    case .content, .artifact: ["GET", "HEAD", "PUT", "OPTIONS"]
    case .entry where tool == .sccache: ["GET", "HEAD", "PUT", "DELETE", "PROPFIND", "MKCOL", "OPTIONS"]
    case .entry: ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"]
    case .collection: ["PROPFIND", "MKCOL", "OPTIONS"]
    case .artifactQuery, .events: ["POST", "OPTIONS"]
    case .status: ["GET", "HEAD", "OPTIONS"]
    }
  }

  /// What a caller must be allowed to do.
  func permission(for method: String) -> Permission {
    let scope: AccessScope = isSafe(method) ? .read : .write
    return switch resource {
    case .entry(let key), .content(let key, _), .artifact(let key): Permission(scope: scope, reach: .key(key.string))
    case .collection(let prefix): Permission(scope: scope, reach: .prefix(prefix))
    case .artifactQuery(let team), .events(let team), .status(let team):
      Permission(scope: scope, reach: .prefix(TurboArtifact.keyPrefix(of: team)))
    }
  }

  /// Whether a method changes nothing of what is stored.
  private func isSafe(_ method: String) -> Bool {
    switch resource {
    case .artifactQuery, .events: true
    default: ["GET", "HEAD", "PROPFIND", "OPTIONS"].contains(method)
    }
  }

  /// What an answer to OPTIONS says beside the methods.
  var optionFields: HeaderFields {
    switch tool {
    case .sccache: ["DAV": "1"]
    // With `--preflight`, the client sends its token only if this allows it. No page of another site may do so: for
    // that, its origin would have to be allowed too.
    case .turbo: ["Access-Control-Allow-Headers": TurboArtifact.allowedFields]
    case .bazel, .ccache, .gradle: [:]
    }
  }

  /// A refusal in the form that the tool reads.
  func response(to refusal: Refusal) -> ServerResponse {
    tool == .turbo ? refusal.turboResponse : refusal.response
  }
}

/// A build tool that keeps its products in a cache over HTTP: Spec/Server.md, *Build tools*.
///
/// Its name is the first part of its paths, and of its keys.
public enum BuildTool: String, CaseIterable, Sendable {
  /// Bazel, and what else speaks its simple protocol: https://bazel.build/remote/caching
  case bazel
  /// ccache, in each of its layouts: https://ccache.dev/manual/latest.html#_http_storage_backend
  case ccache
  /// sccache, by WebDAV: https://github.com/mozilla/sccache/blob/main/docs/Webdav.md
  case sccache
  /// Gradle: https://docs.gradle.org/current/userguide/build_cache.html
  case gradle
  /// Turborepo: https://turborepo.com/docs/openapi
  case turbo
}

/// A path below a build tool's prefix: names with slashes between them.
///
/// The names that tools make are short and plain. Others are refused, though as keys they would do no harm.
struct ToolPath {
  /// Without escapes.
  let names: [String]
  /// Whether a slash ends the path, as that of a collection in WebDAV.
  let endsWithSlash: Bool

  private static let longestName = 255

  /// - Parameter path: without the slash at its beginning.
  /// - Throws: 400 for a name that is empty, has more than 255 bytes, is `.` or `..`, or has something else than letters
  ///   and digits of ASCII, `-`, `.`, `_` and `~` (RFC 3986, 2.3).
  init(_ path: Substring) throws(Refusal) {
    endsWithSlash = path.hasSuffix("/") || path.isEmpty
    var names: [String] = []
    if !path.isEmpty {
      // An escaped slash is no boundary, and no name has one.
      for part in (endsWithSlash ? path.dropLast() : path).split(separator: "/", omittingEmptySubsequences: false) {
        names.append(try Self.name(part))
      }
    }
    self.names = names
  }

  private static func name(_ text: Substring) throws(Refusal) -> String {
    let name = try RequestTarget.decoded(text)
    guard !name.isEmpty, name.utf8.count <= longestName, name != ".", name != "..", name.utf8.allSatisfy(isUnreserved)
    else {
      throw Refusal(400, "each name of the path has 1 to \(longestName) letters and digits, and -, ., _ and ~")
    }
    return name
  }

  private static func isUnreserved(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "a")...UInt8(ascii: "z"):
      true
    default: "-._~".utf8.contains(byte)
    }
  }
}
