internal import BlobRecord

struct ToolRoute {
  let tool: BuildTool
  let resource: Resource

  enum Resource {
    case entry(BlobKey)
    case content(BlobKey, ContentDigest)
    /// A directory in WebDAV, which is a key prefix here. A collection exists at every path.
    case collection(prefix: String)
    case artifact(BlobKey)
    case artifactQuery(team: String?)
    case events(team: String?)
    case status(team: String?)
  }

  /// - Throws: 400 for a name that the tool never creates; 404 for a path without a resource.
  init?(_ target: RequestTarget) throws(Refusal) {
    if target.path.hasPrefix(Self.nxPrefix) {
      tool = .nx
      resource = .entry(try Self.nx(ToolPath(target.path.dropFirst(Self.nxPrefix.count))))
      return
    }
    let parts = target.path.dropFirst().split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
    guard let first = parts.first, let tool = BuildTool(rawValue: String(first)) else { return nil }
    self.tool = tool
    let path = try ToolPath(parts.count > 1 ? parts[1] : "")
    switch tool {
    case .bazel: resource = try Self.bazel(path)
    case .turbo: resource = try Self.turbo(path, target)
    case .nx: throw Refusal(404, "there is nothing at this path; Nx uses \(Self.nxPrefix)HASH")
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

  /// Nx specifies the path. It cannot be below the name of the tool.
  private static let nxPrefix = "/v1/cache/"

  private static func nx(_ path: ToolPath) throws(Refusal) -> BlobKey {
    guard path.names.count == 1 else { throw Refusal(404, "there is nothing at this path") }
    return try key(of: .nx, path)
  }

  private static func bazel(_ path: ToolPath) throws(Refusal) -> Resource {
    guard !path.endsWithSlash, path.names.count > 1 else { throw Refusal(404, "there is nothing at this path") }
    let key = try key(of: .bazel, path)
    guard path.names.last.flatMap({ ContentDigest($0) }) != nil else {
      throw Refusal(400, "a name is the SHA-256 of what it is for, as 64 hexadecimal digits")
    }
    if case .content(let digest) = KeyRule(key) { return .content(key, digest) }
    guard path.names[path.names.count - 2] == "ac" else { throw Refusal(404, "there is nothing at this path") }
    return .entry(key)
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
  var name: String {
    switch (tool, resource) {
    case (.bazel, .entry): "bazel-ac"
    case (.bazel, _): "bazel-cas"
    default: tool.rawValue
    }
  }

  var methods: [String] {
    switch resource {
    case .entry where tool == .bazel || tool == .nx: ["GET", "HEAD", "PUT", "OPTIONS"]
    case .content, .artifact: ["GET", "HEAD", "PUT", "OPTIONS"]
    case .entry where tool == .sccache: ["GET", "HEAD", "PUT", "DELETE", "PROPFIND", "MKCOL", "OPTIONS"]
    case .entry: ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"]
    case .collection: ["PROPFIND", "MKCOL", "OPTIONS"]
    case .artifactQuery, .events: ["POST", "OPTIONS"]
    case .status: ["GET", "HEAD", "OPTIONS"]
    }
  }

  func permission(for method: String) -> Permission {
    let scope: AccessScope = isSafe(method) ? .read : .write
    return switch resource {
    case .entry(let key), .content(let key, _), .artifact(let key): Permission(scope: scope, reach: .key(key.string))
    case .collection(let prefix): Permission(scope: scope, reach: .prefix(prefix))
    case .artifactQuery(let team), .events(let team), .status(let team):
      Permission(scope: scope, reach: .prefix(TurboArtifact.keyPrefix(of: team)))
    }
  }

  private func isSafe(_ method: String) -> Bool {
    switch resource {
    case .artifactQuery, .events: true
    default: ["GET", "HEAD", "PROPFIND", "OPTIONS"].contains(method)
    }
  }

  var optionFields: HeaderFields {
    switch tool {
    case .sccache: ["DAV": "1"]
    // With `--preflight`, the client sends its token only if this field allows it. Pages of other sites gain nothing,
    // because their origin would have to be allowed as well.
    case .turbo: ["Access-Control-Allow-Headers": TurboArtifact.allowedFields]
    case .bazel, .ccache, .gradle, .nx: [:]
    }
  }

  /// Returns whether a target belongs to Turborepo, even if it is invalid.
  static func isOfTurbo(_ target: String) -> Bool { target.hasPrefix("/" + BuildTool.turbo.rawValue + "/") }

  func response(to refusal: Refusal) -> ServerResponse {
    tool == .turbo ? refusal.turboResponse : refusal.response
  }
}

/// A build tool that caches its products over HTTP: Spec/Server.md, *Build tools*.
///
/// The tool's name is the first component of its keys and, except for Nx, of its paths.
public enum BuildTool: String, CaseIterable, Sendable {
  /// Bazel, and other clients of its HTTP caching protocol: https://bazel.build/remote/caching
  case bazel
  /// ccache, in each of its layouts: https://ccache.dev/manual/latest.html#_http_storage_backend
  case ccache
  /// sccache, over WebDAV: https://github.com/mozilla/sccache/blob/main/docs/Webdav.md
  case sccache
  /// Gradle: https://docs.gradle.org/current/userguide/build_cache.html
  case gradle
  /// Turborepo: https://turborepo.com/docs/openapi
  case turbo
  /// Nx 20.8 or later, whose paths begin with `/v1/cache/` instead of the tool's name:
  /// https://nx.dev/recipes/running-tasks/self-hosted-caching
  case nx
}

/// The path of a build tool's request. Only short, plain names are accepted, because tools use no others.
struct ToolPath {
  let names: [String]
  let endsWithSlash: Bool

  private static let longestName = 255

  /// - Throws: 400 for a name that is empty, `.` or `..`, has more than 255 bytes, or contains anything other than
  ///   ASCII letters and digits, `-`, `.`, `_` and `~` (RFC 3986, 2.3).
  init(_ path: Substring) throws(Refusal) {
    endsWithSlash = path.hasSuffix("/") || path.isEmpty
    var names: [String] = []
    if !path.isEmpty {
      // An escaped slash does not separate names. It is refused as part of a name.
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
