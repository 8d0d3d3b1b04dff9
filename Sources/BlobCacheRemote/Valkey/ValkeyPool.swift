#if Remote
  internal import BlobCache
  internal import Locks

  /// The connections to one server, which are created on demand up to a limit. Each carries many concurrent requests.
  final class ValkeyPool: Sendable {
    private struct State {
      var connections: [RESPConnection] = []
      /// Only one connection is established at a time.
      var dialing: Outcome<RESPConnection>?
      var isClosed = false
    }

    private enum Choice {
      case use(RESPConnection)
      case wait(Outcome<RESPConnection>)
      case closed
    }

    let server: ValkeyAddress
    private let limit: Int
    private let dialer: ValkeyDialer
    private let state = Lock(State())

    init(_ server: ValkeyAddress, limit: Int, _ dialer: ValkeyDialer) {
      self.server = server
      self.limit = limit
      self.dialer = dialer
    }

    /// Returns the connection with the lowest load, and establishes another one concurrently if all are busy.
    func connection() async throws -> RESPConnection {
      let (choice, begun) = state.withLock { state -> (Choice, Outcome<RESPConnection>?) in
        guard !state.isClosed else { return (.closed, nil) }
        state.connections.removeAll { !$0.isOpen }
        let best = state.connections.min { $0.load < $1.load }
        if let best, best.load == 0 { return (.use(best), nil) }
        var begun: Outcome<RESPConnection>?
        if state.dialing == nil, state.connections.count < limit {
          begun = Outcome()
          state.dialing = begun
        }
        if let best { return (.use(best), begun) }
        return (state.dialing.map { .wait($0) } ?? .closed, begun)
      }
      if let begun { dial(begun) }
      switch choice {
      case .use(let connection): return connection
      case .wait(let outcome): return try await outcome.value()
      case .closed: throw RemoteError(.failed, "\(dialer.failure.engine) is closed")
      }
    }

    /// Establishes a connection in a separate task, because a waiting task may be cancelled.
    private func dial(_ outcome: Outcome<RESPConnection>) {
      Task { [self] in
        let result: Result<RESPConnection, any Error>
        do {
          result = .success(try await dialer.connection(to: server))
        } catch {
          result = .failure(error)
        }
        let isClosed = state.withLock { state in
          state.dialing = nil
          if case .success(let connection) = result, !state.isClosed { state.connections.append(connection) }
          return state.isClosed
        }
        if isClosed, case .success(let connection) = result { connection.close() }
        outcome.end(result)
      }
    }

    func closeSilent(for time: Duration) {
      let silent = state.withLock { state in state.connections.filter { $0.silence >= time } }
      for connection in silent {
        connection.close(
          RemoteError(.timedOut, "\(dialer.failure.engine): \(server) has stopped answering"))
      }
    }

    func close() {
      let connections = state.withLock { state in
        state.isClosed = true
        defer { state.connections = [] }
        return state.connections
      }
      for connection in connections {
        connection.close(RemoteError(.failed, "\(dialer.failure.engine) is closed"))
      }
    }
  }
#endif
