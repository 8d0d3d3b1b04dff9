import Foundation
import Synchronization

/// A TCP server at a port of 127.0.0.1, with a thread for each connection.
final class Listener: Sendable {
  let port: Int
  private let socket: Int32
  private let connections = Mutex<[Connection]>([])
  private let isClosed = Atomic(false)
  /// The number of accepted connections.
  let accepted = Counter()

  /// - Parameters:
  ///   - port: The port, or 0 for a free one.
  ///   - serve: Called in a new thread for each connection.
  init(port: Int = 0, _ serve: @escaping @Sendable (Connection) -> Void) throws {
    let socket = Foundation.socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    self.socket = socket
    var one: Int32 = 1
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &one, socklen_t(MemoryLayout<Int32>.size))
    var address = sockaddr_in.loopback(port)
    var size = socklen_t(MemoryLayout<sockaddr_in>.size)
    let status = withUnsafeMutablePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(socket, $0, size) | getsockname(socket, $0, &size) }
    }
    guard status == 0, listen(socket, 128) == 0 else { throw Failure("no port \(port): \(errno)") }
    self.port = Int(UInt16(bigEndian: address.sin_port))
    Thread.detachNewThread { [weak self] in
      // Only this thread closes the socket. Otherwise it could accept connections on a reused descriptor.
      defer { Foundation.close(socket) }
      while true {
        let accepted = accept(socket, nil, nil)
        guard accepted >= 0 else {
          if errno == EINTR || errno == ECONNABORTED { continue }
          return
        }
        let connection = Connection(accepted)
        guard let self else { return connection.close() }
        _ = self.accepted.increment()
        self.connections.withLock { $0.append(connection) }
        // A connection that was accepted during `close` is closed too, because its client would wait forever.
        guard !self.isClosed.load(ordering: .sequentiallyConsistent) else { return self.endConnections() }
        Thread.detachNewThread { serve(connection) }
      }
    }
  }

  deinit { close() }

  /// Stops listening, and ends all connections.
  func close() {
    guard !isClosed.exchange(true, ordering: .sequentiallyConsistent) else { return }
    // This ends the thread that waits for connections.
    shutdown(socket, Int32(SHUT_RDWR))
    endConnections()
  }

  func endConnections() {
    let ended = connections.withLock { connections in
      defer { connections = [] }
      return connections
    }
    for connection in ended { connection.close() }
  }
}

/// A connection whose reads and writes block.
final class Connection: Sendable {
  private let socket: Int32
  private let isClosed = Mutex(false)

  init(_ socket: Int32) { self.socket = socket }

  /// - Returns: `nil` if no server listens at the port.
  init?(to port: Int) {
    socket = Foundation.socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    var address = sockaddr_in.loopback(port)
    let status = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        connect(socket, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
    // `deinit` closes the socket here too. A second close could close a reused descriptor.
    guard status == 0 else { return nil }
  }

  /// - Returns: `nil` if no server listens at the file.
  init?(toFile path: String) {
    socket = Foundation.socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8.prefix($0.count - 1)) }
    let status = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        connect(socket, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
    guard status == 0 else { return nil }
  }

  deinit { Foundation.close(socket) }

  /// Sets the timeout of reads in seconds.
  func waits(for seconds: Int) {
    var time = timeval(tv_sec: seconds, tv_usec: 0)
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &time, socklen_t(MemoryLayout<timeval>.size))
  }

  /// - Returns: The bytes, or an empty array at the end and after an error.
  func read() -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: 1 << 16)
    let count = recv(socket, &bytes, bytes.count, 0)
    return count > 0 ? Array(bytes[..<count]) : []
  }

  /// - Returns: A Boolean value that indicates whether the peer accepts bytes.
  @discardableResult func write(_ bytes: some Collection<UInt8>) -> Bool {
    var rest = Array(bytes)[...]
    while !rest.isEmpty {
      let count = rest.withUnsafeBytes { send(socket, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
      guard count > 0 else { return false }
      rest = rest.dropFirst(count)
    }
    return true
  }

  /// Shuts down both directions, so that blocked reads and writes return.
  func close() {
    isClosed.withLock { isClosed in
      guard !isClosed else { return }
      isClosed = true
      shutdown(socket, Int32(SHUT_RDWR))
    }
  }

  /// Closes the connection so that the peer gets an error instead of an end.
  func reset() {
    var linger = linger(l_onoff: 1, l_linger: 0)
    setsockopt(socket, SOL_SOCKET, SO_LINGER, &linger, socklen_t(MemoryLayout<Foundation.linger>.size))
    // Without a shutdown, closing the last reference to the socket sends the reset.
    isClosed.withLock { $0 = true }
    var unspecified = sockaddr()
    unspecified.sa_family = sa_family_t(AF_UNSPEC)
    connect(socket, &unspecified, socklen_t(MemoryLayout<sockaddr>.size))
  }
}

extension sockaddr_in {
  static func loopback(_ port: Int) -> sockaddr_in {
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    address.sin_port = UInt16(port).bigEndian
    return address
  }
}
