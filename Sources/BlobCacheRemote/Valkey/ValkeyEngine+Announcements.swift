#if Remote
  public import BlobCache
  internal import NIOCore

  extension ValkeyEngine: RemoteAnnouncing {
    public func announce(_ text: String, on channel: String) async throws {
      let server = try await server(of: channel)
      _ = try await servers.reply(to: RESPCommand("PUBLISH", channel, text), from: server)
    }

    /// All machines use the same node, which preserves the order of messages. Another node would only forward them.
    private func server(of channel: String) async throws -> ValkeyAddress {
      let topology = try await servers.topology()
      return topology.server(of: channel) ?? topology.primaries[0]
    }

    /// Subscribes to a channel on a separate connection, until the sequence is released.
    ///
    /// Up to 4,096 texts are buffered, and a further one ends the sequence. Texts above 100,000 bytes are discarded.
    public func announcements(
      on channel: String
    ) async throws -> any AsyncSequence<String, any Error> & Sendable {
      try await announcements(on: channel, askingAfter: .seconds(10), patience: .seconds(10))
    }

    /// - Parameter pause: The interval of pings, whose timeout is `patience`.
    func announcements(
      on channel: String, askingAfter pause: Duration, patience: Duration
    ) async throws -> AsyncThrowingStream<String, any Error> {
      let server = try await server(of: channel)
      return try await ValkeySubscription.begin(on: channel, at: server, servers, askingAfter: pause, patience)
    }
  }

  enum ValkeySubscription {
    private static let waitingLimit = 4096
    /// The maximum size of a text in bytes. Announcements of changes are never longer.
    private static let longestText = 100_000

    static func begin(
      on channel: String, at server: ValkeyAddress, _ servers: ValkeyServers, askingAfter pause: Duration,
      _ patience: Duration
    ) async throws -> AsyncThrowingStream<String, any Error> {
      let (stream, texts) = AsyncThrowingStream<String, any Error>.makeStream(
        bufferingPolicy: .bufferingOldest(waitingLimit))
      let failure = servers.dialer.failure
      let connection = try await connection(to: server, servers, yieldingTo: texts)
      connection.whenClosed { [weak servers] error in
        servers?.renew()
        let end = failure.error(error ?? ChannelError.eof, at: server, isNew: false)
        texts.finish(throwing: end)
      }
      let silence = RemoteError(.timedOut, "\(failure.engine): \(server) has stopped answering")
      let watch = watch(connection, askingAfter: pause, patience, silence)
      texts.onTermination = { _ in
        watch.cancel()
        connection.close()
      }
      do {
        if case .error(let text) = try await connection.send([RESPCommand("SUBSCRIBE", channel)])[0] {
          throw failure.error(reply: text, from: server)
        }
      } catch {
        texts.finish()
        throw failure.error(error, at: server, isNew: false)
      }
      return stream
    }

    private static func connection(
      to server: ValkeyAddress, _ servers: ValkeyServers,
      yieldingTo texts: AsyncThrowingStream<String, any Error>.Continuation
    ) async throws -> RESPConnection {
      // A separate task, so that a cancellation does not interrupt the connection setup.
      let dialed = Outcome<RESPConnection>()
      Task {
        let result: Result<RESPConnection, any Error>
        do {
          let connection = try await servers.dialer.connection(to: server) { message in
            take(message, texts, servers.dialer.failure)
          }
          try servers.keep(connection)
          result = .success(connection)
        } catch {
          result = .failure(error)
        }
        dialed.end(result)
      }
      do {
        return try await dialed.value()
      } catch {
        // The channel may have moved to another node, which the next attempt then uses.
        servers.renew()
        // After a cancellation, the connection may still be established and has to be closed. Errors are irrelevant.
        Task { try? await dialed.value().close() }
        throw error
      }
    }

    private static func take(
      _ message: RESPValue, _ texts: AsyncThrowingStream<String, any Error>.Continuation, _ failure: ValkeyFailure
    ) {
      guard let parts = message.elements, parts.count == 3, let text = parts[2].text,
        text.utf8.count <= longestText
      else { return }
      guard case .dropped = texts.yield(text) else { return }
      texts.finish(
        throwing: RemoteError(
          .failed, "\(failure.engine): more than \(waitingLimit) announcements waited to be taken"))
    }

    /// Pings the server periodically, and closes the connection if the reply does not arrive in time.
    private static func watch(
      _ connection: RESPConnection, askingAfter pause: Duration, _ patience: Duration, _ silence: RemoteError
    ) -> Task<Void, Never> {
      Task {
        // The loop ends when the task is cancelled or the connection ends, as intended.
        while (try? await Task.sleep(for: pause)) != nil {
          let sign = Task { _ = try await connection.send([RESPCommand("PING")]) }
          let limit = Task {
            try await Task.sleep(for: patience)
            connection.close(silence)
          }
          guard case .success = await sign.result else { return }
          limit.cancel()
        }
      }
    }
  }
#endif
