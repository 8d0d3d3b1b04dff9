public import BlobCache
internal import BlobRecord
internal import Logging

/// Answers HTTP requests with the blobs of a cache, independently of a transport.
///
/// Spec/Server.md describes the routes, fields and statuses. Requests and responses are values, except for bodies,
/// which are streams in constant memory. Any number of tasks can use a responder concurrently.
public struct BlobResponder: Sendable {
  public let cache: BlobCache
  public let configuration: Configuration
  let logger: Logger
  let requests = RequestCounts()
  var bodies: (inMemory: BodyBudget, onDisk: BodyBudget)
  var place = ""
  let viewer = ViewerState()
  let entrance: Entrance?
  let soundFiles = SoundFiles()
  let contentChecks = ContentChecks()
  /// A Boolean value that indicates whether blobs in memory may have to be revalidated with the remote tier.
  let revalidates: Bool

  public struct Configuration: Sendable {
    /// The host names that requests may specify in addition to IP addresses and `localhost`, or `nil` for any name.
    ///
    /// With any name, another site could access the server through a host name that resolves to this machine.
    public var hostNames: Set<String>? = []
    /// The access control, which allows every request by default.
    public var access = AccessControl()
    /// A Boolean value that indicates whether requests that change data are refused.
    public var isReadOnly = false
    /// A Boolean value that indicates whether the transport identifies clients, such as by their certificates.
    ///
    /// Caches between clients and the server must then not share responses, as with tokens.
    public var transportIdentifiesClients = false
    /// A one-time token that `/ui/enter` exchanges for a required cookie, or `nil` to require no cookie.
    public var entranceToken: String?
    /// The lifetimes of a build tool's products after their last use.
    ///
    /// The directory's default applies to tools without an entry. A time to live in a request takes precedence.
    public var toolLifetimes: [BuildTool: Duration] = [:]

    /// The maximum number of bytes of memory that all request bodies together occupy during their transfer.
    ///
    /// Requests beyond this limit are answered with 503.
    public var bodyBytesInMemory: Int64 = 64 << 20
    /// The maximum number of bytes on disk that bodies of more than 256 KiB together occupy during their transfer.
    ///
    /// Requests beyond this limit are answered with 503. A body may exceed it while no other is in transfer.
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

  /// Returns the response to a request. Errors become responses too.
  ///
  /// - Complexity: A body of more than 256 KiB requires the memory of one piece.
  public func respond(to request: ServerRequest) async -> ServerResponse {
    let request = request.inOriginForm
    return await RemoteTier.$isPassedOver.withValue(request.fields[RemoteTier.senderField] != nil) {
      await withSpan(of: request) { await response(to: request) }
    }
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
        // The refusal may precede the route.
        case nil where ToolRoute.isOfTurbo(request.target): refusal.turboResponse
        default: refusal.response
        }
    }
    requests.add(route, request.method, status: response.status)
    return request.method == "HEAD" ? response.withoutBody : response
  }

  private func answer(_ request: ServerRequest, _ found: inout Route?) async throws -> ServerResponse {
    try OriginRule(hostNames: configuration.hostNames).check(request)
    guard request.fields[RemoteTier.senderField] != RemoteTier.sender || cache.configuration.remote == nil else {
      throw Refusal(508, "the remote tier of this server leads back to it")
    }
    var caller = entrance == nil ? try configuration.access.caller(of: request) : .anyone
    caller.place = place
    var request = request
    request.caller = caller.name.map { "token \($0)" } ?? request.peerUser.map { "user \($0)" } ?? request.peer
    if request.target == "*", request.method == "OPTIONS" { return try serverOptions(request) }
    let target = try RequestTarget(request.target)
    let route = try Route(target)
    found = route
    if !route.isOpen { try admit(request) }
    guard route.methods.contains(request.method) else { throw Self.refusal(of: request.method, for: route) }
    if let permission = route.permission(for: request.method) {
      guard permission.scope == .read || !configuration.isReadOnly else {
        throw Refusal(403, "this server is for reading only")
      }
      try caller.check(permission)
      if let pinning = route.permissionToPin(request, target) { try caller.check(pinning) }
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

  /// - Throws: 403 for a request without the cookie of the entrance, if there is one.
  private func admit(_ request: ServerRequest) throws(Refusal) {
    if let entrance, !entrance.admits(request) { throw Entrance.refusal }
  }

  /// Returns the methods of the server as a whole (RFC 9110, 9.3.7).
  private func serverOptions(_ request: ServerRequest) throws(Refusal) -> ServerResponse {
    try admit(request)
    return ServerResponse(status: 204, fields: ["Allow": "GET, HEAD, PUT, DELETE, POST, OPTIONS, PROPFIND, MKCOL"])
  }

  private static func refusal(of method: String, for route: Route) -> Refusal {
    // A method that no server is expected to know gets 501, so that clients do not retry elsewhere (RFC 9110, 9.1).
    let known = ["GET", "HEAD", "PUT", "DELETE", "POST", "OPTIONS", "PATCH", "TRACE", "CONNECT", "PROPFIND", "MKCOL"]
    let status = known.contains(method) ? 405 : 501
    return Refusal(status, "this is not done here", fields: ["Allow": route.allowedMethods])
  }
}

extension BlobResponder {
  /// Reports whether the directory can be used, because reading the statistics opens it.
  private func readiness() async throws -> ServerResponse {
    _ = try await cache.statistics()
    return .line(200, "ready")
  }

  var now: UnixTime { cache.configuration.store.now() }
}
