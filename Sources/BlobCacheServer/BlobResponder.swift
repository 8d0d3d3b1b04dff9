public import BlobCache
internal import BlobRecord
internal import Logging

/// Answers requests over HTTP with the blobs of a cache, without knowing how requests arrive.
///
/// Spec/Server.md has the routes, fields and statuses. A request is a value and so is its answer, but for bodies, which
/// are streams in constant memory. It may be called from any number of tasks.
public struct BlobResponder: Sendable {
  public let cache: BlobCache
  public let configuration: Configuration
  let logger: Logger
  let requests = RequestCounts()
  /// What the bodies of all requests may take while they arrive.
  var bodies: (inMemory: BodyBudget, onDisk: BodyBudget)
  /// The name of the directory and a slash, where there are many; else empty.
  var place = ""
  let viewer = ViewerState()
  /// nil of a server that is not for one browser alone.
  let entrance: Entrance?
  let soundFiles = SoundFiles()
  /// Whether a blob that is in memory may have to be asked for in the remote tier.
  let revalidates: Bool

  public struct Configuration: Sendable {
    /// Names that requests may give as their host, beside IP addresses and `localhost`; nil for any.
    ///
    /// With any name, a page of another site could reach the server by a name of its own that leads here.
    public var hostNames: Set<String>? = []
    /// Who may do what. Anybody may do everything, if nothing is said.
    public var access = AccessControl()
    /// Whether requests that change something are refused.
    public var isReadOnly = false
    /// A token that `/ui/enter` exchanges once for a cookie, which every request needs; nil for a server that needs none.
    public var entranceToken: String?
    /// How long products of a build tool live after their last use; others as long as the directory's default says.
    ///
    /// A request that names a time to live has that.
    public var toolLifetimes: [BuildTool: Duration] = [:]

    /// Bytes in memory that the bodies of all requests together may take while they arrive. More is answered with 503.
    public var bodyBytesInMemory: Int64 = 64 << 20
    /// Bytes on the disk that bodies of more than 256 KiB may take together while they arrive. More is answered with 503,
    /// but for one body alone.
    public var bodyBytesOnDisk: Int64 = 4 << 30

    public init() {}
  }

  public init(cache: BlobCache, configuration: Configuration = Configuration()) {
    self.cache = cache
    self.configuration = configuration
    bodies = (
      inMemory: BodyBudget(limit: configuration.bodyBytesInMemory),
      onDisk: BodyBudget(limit: configuration.bodyBytesOnDisk)
    )
    entrance = configuration.entranceToken.map { Entrance(token: $0) }
    logger = cache.configuration.store.logger
    revalidates = cache.configuration.remote?.revalidatesAfter != nil
  }

  /// The answer to a request. Failures are answers too.
  ///
  /// - Complexity: a body of more than 256 KiB takes the memory of a piece.
  public func respond(to request: ServerRequest) async -> ServerResponse {
    await withSpan(of: request) { await response(to: request) }
  }

  private func response(to request: ServerRequest) async -> ServerResponse {
    var response: ServerResponse
    var route: Route?
    do {
      response = try await answer(request, &route)
    } catch {
      let refusal = Refusal(error)
      if refusal.status >= 500 { logger.warning("\(request.method) is answered with \(refusal.status): \(error)") }
      response =
        switch route {
        case .viewer: page(for: refusal)
        case .tool(let tool): tool.response(to: refusal)
        default: refusal.response
        }
    }
    requests.add(route, request.method, status: response.status)
    return request.method == "HEAD" ? response.withoutBody : response
  }

  /// - Parameter found: becomes the route, once it is known.
  private func answer(_ request: ServerRequest, _ found: inout Route?) async throws -> ServerResponse {
    try OriginRule(hostNames: configuration.hostNames).check(request)
    var caller = entrance == nil ? try configuration.access.caller(of: request) : .anyone
    caller.place = place
    let target = try RequestTarget(request.target)
    let route = try Route(target)
    found = route
    if let entrance, !route.isOpen, !entrance.admits(request) { throw Entrance.refusal }
    guard route.methods.contains(request.method) else { return Self.refusal(of: request.method, for: route) }
    if let permission = route.permission(for: request.method) {
      guard permission.scope == .read || !configuration.isReadOnly else {
        throw Refusal(403, "this server is for reading only")
      }
      try caller.check(permission)
    }
    if request.method == "OPTIONS" { return ServerResponse(status: 204, fields: route.optionFields) }
    switch (route, request.method) {
    case (.blob(let key), "GET"): return try await get(key, request)
    case (.blob(let key), "HEAD"): return try await get(key, request, isForHeadAlone: true)
    case (.blob(let key), "PUT"): return try await put(key, request)
    case (.blob(let key), "DELETE"): return try await remove(key, request)
    case (.blob(let key), _): return try await change(key, target)
    case (.list(let query), _): return try await list(query)
    case (.record(let key), _): return try await record(key)
    case (.tool(let tool), _): return try await answer(tool, request)
    case (.metrics, _): return try await metrics()
    case (.status, _): return try await status()
    case (.health, _): return .line(200, "ok")
    case (.readiness, _): return try await readiness()
    case (.viewer(let page), _): return try await view(page, request, target, caller)
    case (.viewerRoot, _): return Self.redirection(to: "ui/")
    }
  }

  private static func refusal(of method: String, for route: Route) -> ServerResponse {
    // A method that no server is to know is 501, so that its sender does not try it elsewhere (RFC 9110, 9.1).
    let known = ["GET", "HEAD", "PUT", "DELETE", "POST", "OPTIONS", "PATCH", "TRACE", "CONNECT", "PROPFIND", "MKCOL"]
    let status = known.contains(method) ? 405 : 501
    return Refusal(status, "this is not done here", fields: ["Allow": route.allowedMethods]).response
  }
}

extension BlobResponder {
  /// Whether the directory can be used: its statistics are read, which opens it.
  private func readiness() async throws -> ServerResponse {
    _ = try await cache.statistics()
    return .line(200, "ready")
  }

  var now: UnixTime { cache.configuration.store.now() }
}
