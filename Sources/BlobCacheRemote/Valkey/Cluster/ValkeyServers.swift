#if Remote
  internal import BlobCache
  internal import Locks

  final class ValkeyServers: Sendable {
    private struct Way: Hashable {
      let server: ValkeyAddress
      let isForLarge: Bool
    }

    private struct State {
      var pools: [Way: ValkeyPool] = [:]
      var topology: ClusterTopology?
      var learnedAt: ContinuousClock.Instant?
      var learning: Outcome<ClusterTopology>?
      var listeners: [ObjectIdentifier: RESPConnection] = [:]
      var isClosed = false
    }

    /// Larger commands use separate connections.
    static let smallByteCount = 1 << 18
    private static let redirectLimit = 5
    /// The time without any reply after which a server counts as dead if a request to it is cancelled.
    private static let silenceLimit: Duration = .milliseconds(200)
    private static let learningPause: Duration = .milliseconds(100)

    let dialer: ValkeyDialer
    private let settings: ValkeyEngine.Settings
    private let state = Lock(State())

    init(_ settings: ValkeyEngine.Settings, _ dialer: ValkeyDialer) {
      self.settings = settings
      self.dialer = dialer
    }

    private var failure: ValkeyFailure { dialer.failure }

    func close() {
      let (pools, listeners) = state.withLock { state in
        state.isClosed = true
        defer { (state.pools, state.listeners) = ([:], [:]) }
        return (Array(state.pools.values), Array(state.listeners.values))
      }
      for pool in pools { pool.close() }
      for listener in listeners { listener.close(closed) }
    }

    private var closed: RemoteError { RemoteError(.failed, "\(failure.engine) is closed") }

    /// Registers a subscribed connection, so that it is closed with the engine.
    func keep(_ listener: RESPConnection) throws(RemoteError) {
      let isClosed = state.withLock { state in
        if !state.isClosed { state.listeners[ObjectIdentifier(listener)] = listener }
        return state.isClosed
      }
      guard !isClosed else {
        listener.close(closed)
        throw closed
      }
      listener.whenClosed { [weak self, id = ObjectIdentifier(listener)] _ in
        self?.state.withLock { $0.listeners[id] = nil }
      }
    }
  }

  // MARK: - Commands

  extension ValkeyServers {
    /// - Parameter isLarge: A Boolean value that indicates whether the command uses a separate connection.
    /// - Throws: `RemoteError`, also for an error reply; `CancellationError`.
    func reply(to command: RESPCommand, of key: String, isLarge: Bool = false) async throws -> RESPValue {
      let topology = try await topology()
      guard var server = topology.server(of: key) else {
        renew()
        throw RemoteError(
          .failed, "\(failure.engine): no node has slot \(ClusterSlot.of(key)); look at CLUSTER INFO")
      }
      var isAsked = false
      for _ in 0...Self.redirectLimit {
        let reply = try await rawReply(to: command, from: server, afterAsking: isAsked, isLarge: isLarge)
        guard case .error(let text) = reply else { return reply }
        let words = text.split(separator: " ")
        guard words.count == 3, words[0] == "MOVED" || words[0] == "ASK",
          let next = ValkeyAddress(words[2], from: server)
        else { throw refused(text, by: server) }
        isAsked = words[0] == "ASK"
        // `MOVED` changes the topology permanently, but `ASK` applies to only one command.
        if !isAsked { renew() }
        server = next
      }
      throw RemoteError(
        .failed,
        "\(failure.engine): the nodes send a command on more than \(Self.redirectLimit) times; look at CLUSTER NODES")
    }

    func reply(to command: RESPCommand, from server: ValkeyAddress) async throws -> RESPValue {
      let reply = try await rawReply(to: command, from: server)
      if case .error(let text) = reply { throw refused(text, by: server) }
      return reply
    }

    private func refused(_ text: String, by server: ValkeyAddress) -> RemoteError {
      if text.hasPrefix("CLUSTERDOWN") || text.hasPrefix("READONLY") { renew() }
      return failure.error(reply: text, from: server)
    }

    private func rawReply(
      to command: RESPCommand, from server: ValkeyAddress, afterAsking: Bool = false, isLarge: Bool = false
    ) async throws -> RESPValue {
      let pool = try pool(of: server, isForLarge: isLarge)
      let start = ContinuousClock.now
      do {
        let connection = try await pool.connection()
        let commands = afterAsking ? [RESPCommand("ASKING"), command] : [command]
        let replies = try await connection.send(commands)
        // If the node refuses `ASKING`, its reply to the command is misleading.
        if case .error = replies[0] { return replies[0] }
        return replies[commands.count - 1]
      } catch let error as CancellationError {
        // An unresponsive server may have been replaced.
        if ContinuousClock.now - start >= Self.silenceLimit {
          pool.closeSilent(for: Self.silenceLimit)
          renew()
        }
        throw error
      } catch {
        renew()
        throw failure.error(error, at: server, isNew: false)
      }
    }

    private func pool(of server: ValkeyAddress, isForLarge: Bool = false) throws(RemoteError) -> ValkeyPool {
      let way = Way(server: server, isForLarge: isForLarge)
      let pool = state.withLock { state -> ValkeyPool? in
        guard !state.isClosed else { return nil }
        if let pool = state.pools[way] { return pool }
        let pool = ValkeyPool(server, limit: settings.connections, dialer)
        state.pools[way] = pool
        return pool
      }
      guard let pool else { throw closed }
      return pool
    }
  }

  // MARK: - Topology

  extension ValkeyServers {
    /// Returns the topology. The first call queries it, and later calls return the last known one during a query.
    func topology() async throws -> ClusterTopology {
      if let topology = state.withLock({ $0.topology }) { return topology }
      guard let learning = learn() else { throw closed }
      return try await learning.value()
    }

    /// Starts a query of the topology after a sign that slots have moved or a node is dead.
    func renew() {
      let isRecent = state.withLock { state in
        state.learnedAt.map { ContinuousClock.now - $0 < Self.learningPause } ?? false
      }
      if !isRecent { _ = learn() }
    }

    private func learn() -> Outcome<ClusterTopology>? {
      let (outcome, isBegun, known) = state.withLock {
        state -> (Outcome<ClusterTopology>?, Bool, [ValkeyAddress]) in
        guard !state.isClosed else { return (nil, false, []) }
        if let learning = state.learning { return (learning, false, []) }
        let outcome = Outcome<ClusterTopology>()
        state.learning = outcome
        return (outcome, true, state.topology?.primaries ?? [])
      }
      guard let outcome, isBegun else { return outcome }
      Task { [self] in
        let result: Result<ClusterTopology, any Error>
        do {
          result = .success(try await askForTopology(Set(settings.servers + known.shuffled().prefix(8))))
        } catch {
          result = .failure(error)
        }
        let unused = state.withLock { state -> [ValkeyPool] in
          state.learning = nil
          state.learnedAt = .now
          if case .success(let topology) = result { state.topology = topology }
          let used = Set(settings.servers + (state.topology?.primaries ?? []))
          let unused = state.pools.filter { !used.contains($0.key.server) }
          for way in unused.keys { state.pools[way] = nil }
          return Array(unused.values)
        }
        // The connections of unused pools close after the last request.
        _ = consume unused
        outcome.end(result)
      }
      return outcome
    }

    /// Queries several servers concurrently, because some may be dead. The first reply is used.
    private func askForTopology(_ servers: Set<ValkeyAddress>) async throws -> ClusterTopology {
      let limit = settings.connectTime * 3
      return try await withThrowingTaskGroup(of: Result<ClusterTopology, any Error>?.self) { group in
        for server in servers {
          group.addTask { [self] in
            do {
              return .success(try await askForTopology(server))
            } catch {
              return .failure(error)
            }
          }
        }
        group.addTask {
          try? await Task.sleep(for: limit)
          return nil
        }
        defer { group.cancelAll() }
        var (failures, rest) = ([any Error](), servers.count)
        while rest > 0, let answer = try await group.next() {
          switch answer {
          case .success(let topology): return topology
          case .failure(let error):
            failures.append(error)
            rest -= 1
          case nil: rest = 0
          }
        }
        // A refusal takes precedence over an unreachable server, because the user can correct its cause.
        let refusal = failures.first { ($0 as? RemoteError)?.kind == .refused }
        throw refusal ?? failures.first
          ?? RemoteError(
            .timedOut, "\(failure.engine): no server answers in \(limit); set servers, security or connectTime")
      }
    }

    private func askForTopology(_ server: ValkeyAddress) async throws -> ClusterTopology {
      let reply = try await pool(of: server).connection().send([RESPCommand("CLUSTER", "SLOTS")])[0]
      if let topology = ClusterTopology(slots: reply, from: server) { return topology }
      switch reply {
      case .error(let text) where text.contains("cluster support disabled") || text.hasPrefix("ERR unknown"):
        return ClusterTopology(single: server)
      case .error(let text) where text.hasPrefix("NOPERM"):
        // The user lacks the permission for the query. A node of a cluster still redirects commands.
        return ClusterTopology(single: server, isCertain: false)
      case .error(let text): throw failure.error(reply: text, from: server)
      default:
        throw RemoteError(
          .failed, "\(failure.engine): \(server) is a node of a cluster that has no slots; look at CLUSTER INFO")
      }
    }
  }
#endif
