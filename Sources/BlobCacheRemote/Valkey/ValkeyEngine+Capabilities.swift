#if Remote
  public import BlobCache
  internal import NIOCore

  extension ValkeyEngine {
    /// Probes the capabilities of the server that stores keys with the prefix.
    public func capabilities(under prefix: RemoteName) async throws -> RemoteCapabilities {
      let key = "\(prefix.string).blobcache-probe-\(UInt64.random(in: 0...UInt64.max))"
      var capabilities = RemoteCapabilities()
      capabilities.largestObject = largestObject
      capabilities.notes = try await notes(about: key)
      let written = try await ask(["SET", key, "a", "NX", "PX", "60000"])
      // Without a successful write, conditions cannot be tested.
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
      // Access lists restrict channels by name. Subscribers ignore an empty text.
      let channel = "blobcache/" + (prefix.string.hasSuffix("/") ? String(prefix.string.dropLast()) : prefix.string)
      capabilities.announcements = try await isTaken(
        ask(["PUBLISH", channel, ""]), "Nothing can be announced", &capabilities.notes)
      return capabilities

      func isRefused(_ arguments: String...) async throws -> Bool {
        guard case .success(.null) = try await ask(arguments) else { return false }
        return true
      }

      /// Sends a command to the server of `key`. A connection error is thrown instead of returned.
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

  extension ValkeyEngine {
    /// Returns a page of names in no particular order.
    ///
    /// A name can appear twice while the server resizes its hash table, and a page can be empty.
    ///
    /// - Complexity: All pages together require a scan of every key in the database.
    public func list(_ prefix: RemoteName, page: String?) async throws -> RemotePage {
      let topology = try await servers.topology()
      guard topology.isCertain else {
        servers.renew()
        throw RemoteError(.refused, "\(name): \(Self.lacksSlots)")
      }
      let primaries = topology.primaries
      guard let place = page.map({ ListPlace($0, primaries) }) ?? primaries.first.map({ ListPlace("0", $0) }) else {
        return RemotePage(names: [])
      }
      var (names, cursor) = ([RemoteName](), place.cursor)
      for _ in 0..<16 where names.count < 1000 {
        let command = RESPCommand("SCAN", cursor, "MATCH", Self.pattern(for: prefix.string), "COUNT", "1000")
        guard let parts = try await servers.reply(to: command, from: place.server).elements, parts.count == 2,
          let next = parts[0].text, let keys = parts[1].elements
        else { throw unexpected("SCAN") }
        // Keys of other programs may not be valid UTF-8, and are therefore not names.
        names += keys.compactMap(Self.key).filter { $0.utf8.starts(with: prefix.string.utf8) && !Self.isLease($0) }
          .map { RemoteName($0) }
        cursor = next
        if next == "0" { break }
      }
      guard cursor == "0" else { return RemotePage(names: names, next: ListPlace(cursor, place.server).token) }
      let next = primaries.first { $0 > place.server }
      return RemotePage(names: names, next: next.map { ListPlace("0", $0).token })
    }

    static let lacksSlots =
      "without the right to ask for the nodes of a cluster a list may lack names; "
      + "give the user +cluster|slots by ACL SETUSER"

    private static func key(_ value: RESPValue) -> String? {
      guard case .bulk(let bytes) = value else { return nil }
      return String(validating: bytes.readableBytesView, as: UTF8.self)
    }

    static func pattern(for prefix: String) -> String {
      var pattern = ""
      for character in prefix.unicodeScalars {
        if #"*?[]\^-"#.unicodeScalars.contains(character) { pattern.append("\\") }
        pattern.unicodeScalars.append(character)
      }
      return pattern + "*"
    }
  }

  private struct ListPlace {
    let cursor: String
    let server: ValkeyAddress

    init(_ cursor: String, _ server: ValkeyAddress) {
      self.cursor = cursor
      self.server = server
    }

    var token: String { "\(cursor) \(server.port) \(server.host)" }

    init?(_ token: String, _ primaries: [ValkeyAddress]) {
      let parts = token.split(separator: " ", maxSplits: 2)
      guard parts.count == 3, UInt64(parts[0]) != nil, let port = Int(parts[1]) else { return nil }
      let server = ValkeyAddress(String(parts[2]), port: port)
      if primaries.contains(server) {
        self.init(String(parts[0]), server)
      } else if let next = primaries.first(where: { $0 > server }) {
        // The node was removed, and its keys have moved to other nodes.
        self.init("0", next)
      } else {
        return nil
      }
    }
  }
#endif
