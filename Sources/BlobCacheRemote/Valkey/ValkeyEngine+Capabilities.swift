#if Remote
  public import BlobCache

  extension ValkeyEngine {
    /// Asks each question of the server that has the prefix.
    public func capabilities(under prefix: RemoteName) async throws -> RemoteCapabilities {
      let key = "\(prefix.string).blobcache-probe-\(UInt64.random(in: 0...UInt64.max))"
      var capabilities = RemoteCapabilities()
      capabilities.largestObject = largestObject
      capabilities.notes = try await notes(about: key)
      let written = try await ask(["SET", key, "a", "NX", "PX", "60000"])
      // What cannot be written tells of no condition.
      if case .failure(let error) = written {
        capabilities.notes.append("Nothing can be stored: \(error.message).")
      } else {
        capabilities.conditionalPut = try await isRefused("SET", key, "b", "NX")
        capabilities.leases = capabilities.conditionalPut
        capabilities.conditionalReplace = try await isRefused("SET", key, "b", "IFEQ", "c")
        if case .success(.integer(let life)) = try await ask(["PTTL", key]) { capabilities.expiry = life > 0 }
        _ = try await ask(["UNLINK", key])
      }
      capabilities.lists = try await isTaken(
        ask(["SCAN", "0", "COUNT", "1"]), "Nothing can be listed", &capabilities.notes)
      if capabilities.lists, try await !servers.topology().isCertain {
        capabilities.lists = false
        capabilities.notes.append("Nothing can be listed: \(Self.lacksSlots).")
      }
      // Users have rights to channels by their names. Who listens there knows that no text says nothing.
      let channel = "blobcache/" + (prefix.string.hasSuffix("/") ? String(prefix.string.dropLast()) : prefix.string)
      capabilities.announcements = try await isTaken(
        ask(["PUBLISH", channel, ""]), "Nothing can be announced", &capabilities.notes)
      return capabilities

      /// Whether the server sees a condition that does not hold.
      func isRefused(_ arguments: String...) async throws -> Bool {
        guard case .success(.null) = try await ask(arguments) else { return false }
        return true
      }

      /// A reply of the server that has the key, whatever the command is about. What keeps it from answering is thrown.
      func ask(_ arguments: [String]) async throws -> Result<RESPValue, RemoteError> {
        do {
          return .success(try await servers.reply(to: RESPCommand(arguments), of: key))
        } catch let error as RemoteError where ![.unreachable, .timedOut].contains(error.kind) {
          return .failure(error)
        }
      }
    }

    private func isTaken(
      _ reply: Result<RESPValue, RemoteError>, _ what: String, _ notes: inout [String]
    ) -> Bool {
      guard case .failure(let error) = reply else { return true }
      notes.append("\(what): \(error.message).")
      return false
    }

    /// What the server says of itself.
    private func notes(about key: String) async throws -> [String] {
      let primaries = try await servers.topology()
      var notes = primaries.isCluster ? ["A cluster of \(primaries.primaries.count) nodes with slots."] : []
      let reply: RESPValue
      do {
        reply = try await servers.reply(to: RESPCommand("INFO"), of: key)
      } catch let error as RemoteError where error.kind == .refused || error.kind == .unsupported {
        return notes + ["It does not say what it is: \(error.message)."]
      }
      var facts: [Substring: Substring] = [:]
      for line in (reply.text ?? "").split(whereSeparator: \.isNewline) {
        guard let colon = line.firstIndex(of: ":") else { continue }
        facts[line[..<colon]] = line[line.index(after: colon)...]
      }
      if let version = facts["valkey_version"] {
        notes.append("Valkey \(version).")
      } else if let version = facts["redis_version"] {
        notes.append("Redis \(version).")
      }
      if facts["maxmemory"] == "0" {
        notes.append("It has no maxmemory: objects take memory until their end, or until there is none.")
      } else if facts["maxmemory_policy"] == "noeviction" {
        notes.append(
          "Its maxmemory-policy is noeviction: when its memory is full, it takes nothing. allkeys-lru suits a cache.")
      }
      return notes
    }
  }
#endif
