import Foundation
import Synchronization

/// A proxy between an engine and its server, which simulates faults of networks and servers.
final class FaultProxy: Sendable {
  enum Fault: Sendable, CustomStringConvertible {
    /// Forwards all bytes.
    case none
    /// Does not listen.
    case refuse
    /// Accepts connections without a response.
    case hang
    /// Stalls after this number of response bytes of a connection.
    case stall(after: Int)
    /// Closes the connection after this number of bytes.
    case truncate(after: Int)
    /// Resets the connection after this number of bytes.
    case reset(after: Int)
    /// Flips a bit of this byte.
    case flip(at: Int)
    /// Sends this response to each request.
    case answer(String)

    var description: String {
      switch self {
      case .none: "none"
      case .refuse: "refuse"
      case .hang: "hang"
      case .stall(let count): "stall after \(count)"
      case .truncate(let count): "truncate after \(count)"
      case .reset(let count): "reset after \(count)"
      case .flip(let index): "flip at \(index)"
      case .answer(let text): "answer \(text.prefix { $0 != "\r\n" })"
      }
    }
  }

  let port: Int
  private let server: Int
  private let open = Counter()
  private let state: Mutex<(fault: Fault, listener: Listener?)>

  /// - Parameter server: The port of the server.
  init(to server: Int) throws {
    self.server = server
    port = try EngineServer.freePorts(1)[0]
    state = Mutex((.none, nil))
    try set(.none)
  }

  deinit { state.withLock { $0.listener?.close() } }

  /// The number of connections since the current fault began.
  var connectionCount: Int { state.withLock { $0.listener?.accepted.value } ?? 0 }

  /// The number of open client connections.
  var openCount: Int { open.value }

  /// Begins a fault, and ends existing connections.
  func set(_ fault: Fault) throws {
    let old = state.withLock { state in
      defer { state = (fault, nil) }
      return state.listener
    }
    old?.close()
    if case .refuse = fault { return }
    let listener = try Listener(port: port) { [weak self] connection in self?.serve(connection, fault) }
    state.withLock { $0.listener = listener }
  }

  private func serve(_ client: Connection, _ fault: Fault) {
    switch fault {
    case .hang: return
    case .answer(let text):
      var request: [UInt8] = []
      // The head suffices, because the connection ends without reading a body.
      while !request.contains(UInt8(ascii: "\n")) || !String(decoding: request, as: UTF8.self).contains("\r\n\r\n") {
        let bytes = client.read()
        guard !bytes.isEmpty else { return client.close() }
        request += bytes
      }
      client.write(text.utf8)
      client.close()
    default: pass(client, fault)
    }
  }

  private func pass(_ client: Connection, _ fault: Fault) {
    _ = open.increment()
    defer { _ = open.increment(by: -1) }
    guard let upstream = Connection(to: server) else { return client.close() }
    Thread.detachNewThread {
      while case let bytes = client.read(), !bytes.isEmpty, upstream.write(bytes) {}
      upstream.close()
    }
    var count = 0
    while case var bytes = upstream.read(), !bytes.isEmpty {
      switch fault {
      case .stall(let limit) where count + bytes.count > limit:
        client.write(bytes.prefix(max(limit - count, 0)))
        // Waits until the client disconnects.
        while case let more = upstream.read(), !more.isEmpty {}
        return
      case .truncate(let limit) where count + bytes.count > limit:
        client.write(bytes.prefix(max(limit - count, 0)))
        upstream.close()
        return client.close()
      case .reset(let limit) where count + bytes.count > limit:
        client.write(bytes.prefix(max(limit - count, 0)))
        upstream.close()
        return client.reset()
      case .flip(let index) where (count..<(count + bytes.count)).contains(index): bytes[index - count] ^= 4
      default: break
      }
      count += bytes.count
      guard client.write(bytes) else { break }
    }
    upstream.close()
    client.close()
  }
}
