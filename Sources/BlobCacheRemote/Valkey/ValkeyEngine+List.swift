#if Remote
  public import BlobCache
  internal import NIOCore

  extension ValkeyEngine {
    /// The names are in no order. One may come twice while the server makes its table larger, and a page may have none.
    ///
    /// - Complexity: all pages together look at each key of the database.
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
        // Other programs may have keys that are no UTF-8, and so are no names.
        names += keys.compactMap(Self.key).filter { $0.utf8.starts(with: prefix.string.utf8) && !Self.isLease($0) }
          .map { RemoteName($0) }
        cursor = next
        if next == "0" { break }
      }
      guard cursor == "0" else { return RemotePage(names: names, next: ListPlace(cursor, place.server).token) }
      let next = primaries.first { $0 > place.server }
      return RemotePage(names: names, next: next.map { ListPlace("0", $0).token })
    }

    /// Why nothing is listed where nobody tells of other nodes.
    static let lacksSlots =
      "without the right to ask for the nodes of a cluster a list may lack names; "
      + "give the user +cluster|slots by ACL SETUSER"

    /// A key that is text.
    private static func key(_ value: RESPValue) -> String? {
      guard case .bulk(let bytes) = value else { return nil }
      return String(validating: bytes.readableBytesView, as: UTF8.self)
    }

    /// The pattern of all keys with a prefix.
    static func pattern(for prefix: String) -> String {
      var pattern = ""
      for character in prefix.unicodeScalars {
        if #"*?[]\^-"#.unicodeScalars.contains(character) { pattern.append("\\") }
        pattern.unicodeScalars.append(character)
      }
      return pattern + "*"
    }
  }

  /// Where a list goes on: a server, and how far its scan has come.
  private struct ListPlace {
    let cursor: String
    let server: ValkeyAddress

    init(_ cursor: String, _ server: ValkeyAddress) {
      self.cursor = cursor
      self.server = server
    }

    var token: String { "\(cursor) \(server.port) \(server.host)" }

    /// - Returns: nil for a token of another engine, and where no server is left.
    init?(_ token: String, _ primaries: [ValkeyAddress]) {
      let parts = token.split(separator: " ", maxSplits: 2)
      guard parts.count == 3, UInt64(parts[0]) != nil, let port = Int(parts[1]) else { return nil }
      let server = ValkeyAddress(String(parts[2]), port: port)
      if primaries.contains(server) {
        self.init(String(parts[0]), server)
      } else if let next = primaries.first(where: { $0 > server }) {
        // The node is gone, and others have its keys.
        self.init("0", next)
      } else {
        return nil
      }
    }
  }
#endif
