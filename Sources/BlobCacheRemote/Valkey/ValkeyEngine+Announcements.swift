#if Remote
  public import BlobCache
  internal import NIOCore

  extension ValkeyEngine: RemoteAnnouncing {
    public func announce(_ text: String, on channel: String) async throws {
      let server = try await server(of: channel)
      _ = try await servers.reply(to: RESPCommand("PUBLISH", channel, text), from: server)
    }

    /// All machines use one node for a channel, so that texts keep their order. The others would pass them on.
    private func server(of channel: String) async throws -> ValkeyAddress {
      let topology = try await servers.topology()
      return topology.server(of: channel) ?? topology.primaries[0]
    }

    /// Has a connection of its own, until the sequence is let go.
    ///
    /// 4,096 texts wait to be taken at the most; one more ends it. Texts above 100,000 bytes are left out.
    public func announcements(
      on channel: String
    ) async throws -> any AsyncSequence<String, any Error> & Sendable {
      try await announcements(on: channel, askingAfter: .seconds(10), patience: .seconds(10))
    }

    /// - Parameters:
    ///   - pause: how often the server is asked whether it lives.
    ///   - patience: how long its answer may take.
    func announcements(
      on channel: String, askingAfter pause: Duration, patience: Duration
    ) async throws -> AsyncThrowingStream<String, any Error> {
      let server = try await server(of: channel)
      return try await ValkeySubscription.begin(on: channel, at: server, servers, askingAfter: pause, patience)
    }
  }

  /// What is announced on one channel, from a connection of its own.
  enum ValkeySubscription {
    private static let waitingLimit = 4096
    /// No announcement of a change is longer.
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

    /// Opens the connection, whose messages are yielded to the stream.
    private static func connection(
      to server: ValkeyAddress, _ servers: ValkeyServers,
      yieldingTo texts: AsyncThrowingStream<String, any Error>.Continuation
    ) async throws -> RESPConnection {
      // In a task of its own, which is not cut off in the middle of a connection.
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
        // The channel may have another node by now, which who tries again goes to.
        servers.renew()
        // If the task was cancelled, the connection may come all the same. Its failure would change nothing.
        Task { try? await dialed.value().close() }
        throw error
      }
    }

    /// Yields the text of a message, and ends the stream when too many wait.
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

    /// Asks the server again and again whether it lives, and closes the connection when it does not answer in time.
    private static func watch(
      _ connection: RESPConnection, askingAfter pause: Duration, _ patience: Duration, _ silence: RemoteError
    ) -> Task<Void, Never> {
      Task {
        // It ends by its cancellation, or because the connection has ended: both are what it is for.
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
