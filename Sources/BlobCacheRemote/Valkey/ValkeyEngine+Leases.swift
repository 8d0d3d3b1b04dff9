#if Remote
  public import BlobCache
  internal import Synchronization

  /// A lease is a separate key `NAME/.lease` whose value is the holder. No record has such a name.
  extension ValkeyEngine: RemoteLeasing {
    /// Acquires a lease, or extends it for its current holder.
    public func acquireLease(_ name: RemoteName, as holder: String, for time: Duration) async throws -> Bool {
      let (seconds, attoseconds) = time.components
      let milliseconds = max(1, min(max(0, seconds), Self.longestLife) * 1000 + attoseconds / 1_000_000_000_000_000)
      let key = Self.leaseKey(of: name)
      let command = RESPCommand("SET", key, holder, "NX", "PX", "\(milliseconds)")
      guard try await servers.reply(to: command, of: key) == .null else { return true }
      guard try await servers.reply(to: RESPCommand("GET", key), of: key).text == holder else {
        return false
      }
      // If the lease expired in the meantime, this extends another holder's lease, which only causes a longer wait.
      let extended = RESPCommand("PEXPIRE", key, "\(milliseconds)")
      return try await servers.reply(to: extended, of: key).integer == 1
    }

    public func releaseLease(_ name: RemoteName, as holder: String) async throws {
      let key = Self.leaseKey(of: name)
      if !lacksConditionalDelete.load(ordering: .relaxed) {
        do {
          _ = try await servers.reply(to: RESPCommand("DELIFEQ", key, holder), of: key)
          return
        } catch let error as RemoteError where error.kind == .unsupported {
          lacksConditionalDelete.store(true, ordering: .relaxed)
        }
      }
      let command = RESPCommand("EVAL", Self.releaseScript, "1", key, holder)
      _ = try await servers.reply(to: command, of: key)
    }

    private static let leaseEnd = "/.lease"

    private static func leaseKey(of name: RemoteName) -> String { name.string + leaseEnd }

    static func isLease(_ key: String) -> Bool { key.utf8.suffix(leaseEnd.utf8.count).elementsEqual(leaseEnd.utf8) }

    private static let releaseScript =
      "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('UNLINK', KEYS[1]) else return 0 end"
  }
#endif
