#if Server
  internal import Locks
  internal import NIOCore
  internal import TextFormats

  /// The open connections, of which each peer may have three quarters.
  ///
  /// A connection beyond these limits is accepted, but answers only questions about the server's health. Otherwise, a
  /// monitoring system would take a server with many clients for one that has failed. If too many such connections are
  /// open, the oldest one is closed, because a question about the health takes a moment.
  final class ConnectionPlaces: Sendable {
    private struct State {
      var placeCount = 0
      var placeCounts: [String: Int] = [:]
      var extra: [any Channel] = []
    }

    private let limit: Int
    private let state = Lock(State())

    init(_ limit: Int) { self.limit = limit }

    private var peerLimit: Int { limit - limit / 4 }
    /// The maximum number of connections without a place.
    private var extraLimit: Int { max(2, limit / 16) }
    /// The maximum number of open connections, some of which are being closed. Others wait for a moment.
    var connectionLimit: Int { limit + 2 * extraLimit }

    /// Returns a Boolean value that indicates whether a new connection has a place, which lasts until it is closed.
    func take(for channel: any Channel) -> Bool {
      let peer = channel.remoteAddress?.peer
      let (hasPlace, oldest) = state.withLock { state -> (Bool, (any Channel)?) in
        if state.placeCount < limit, peer.map({ state.placeCounts[$0, default: 0] < peerLimit }) ?? true {
          state.placeCount += 1
          if let peer { state.placeCounts[peer, default: 0] += 1 }
          return (true, nil)
        }
        state.extra.append(channel)
        return (false, state.extra.count > extraLimit ? state.extra.removeFirst() : nil)
      }
      oldest?.close(promise: nil)
      channel.closeFuture.whenComplete { [self] _ in
        state.withLock { state in
          guard hasPlace else { return state.extra.removeAll { $0 === channel } }
          state.placeCount -= 1
          guard let peer, let count = state.placeCounts[peer] else { return }
          state.placeCounts[peer] = count > 1 ? count - 1 : nil
        }
      }
      return hasPlace
    }
  }

  extension SocketAddress {
    /// A text for the client's machine, or `nil` for a Unix socket.
    ///
    /// A client of IPv6 can use each address of its network, which has 64 bits.
    var peer: String? {
      switch self {
      case .v4: return ipAddress
      case .unixDomainSocket: return nil
      case .v6(let address):
        // `sockaddr_in6` begins with family, port and flow information, and continues with the address.
        let bytes = unsafe withUnsafeBytes(of: address.address) { unsafe Array($0[8..<24]) }
        let isMapped = bytes.starts(with: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF])
        return Hexadecimal.text(isMapped ? bytes : Array(bytes.prefix(8)))
      }
    }
  }
#endif
