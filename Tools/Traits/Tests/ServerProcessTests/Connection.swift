import Foundation

#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#elseif canImport(Android)
  import Android
#elseif canImport(Darwin)
  import Darwin
#endif

/// A connection whose bytes a test writes itself, valid or invalid.
final class Connection {
  private let descriptor: Int32
  private var received = Data()

  /// The timeout is longer than any operation, so that a test fails instead of hanging.
  private static let patience = timeval(tv_sec: 20, tv_usec: 0)

  /// The process that implements TLS, or `nil` for plain text.
  private var client: Process?

  #if canImport(Darwin)
    private static let stream = SOCK_STREAM
  #else
    private static let stream = Int32(SOCK_STREAM.rawValue)
  #endif

  /// - Parameters:
  ///   - host: The last number of the client's address, which begins with 127.0.0. Linux alone has others than 1.
  ///   - receiveBuffer: The size of the socket's receive buffer in bytes, or `nil` for the default.
  convenience init(port: UInt16, host: UInt32 = 1, receiveBuffer: Int32? = nil) throws {
    try self.init(descriptor: socket(AF_INET, Self.stream, 0))
    if let receiveBuffer { try set(SO_RCVBUF, receiveBuffer) }
    func address(_ host: UInt32, _ port: UInt16) -> sockaddr_in {
      var address = sockaddr_in()
      address.sin_family = sa_family_t(AF_INET)
      address.sin_port = port.bigEndian
      address.sin_addr.s_addr = (0x7F00_0000 + host).bigEndian
      return address
    }
    try with(address(host, 0), "bind") { bind(descriptor, $0, $1) }
    try connect(to: address(1, port))
  }

  convenience init(socket path: String) throws {
    try self.init(descriptor: socket(AF_UNIX, Self.stream, 0))
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
    try connect(to: address)
  }

  /// Creates a TLS connection by `openssl`.
  ///
  /// - Parameters:
  ///   - certificates: The certificates whose authority must have signed the server's certificate.
  ///   - name: The name of the client certificate, or `nil` if the client has no certificate.
  ///   - own: The owner of the client certificate, if it differs from `certificates`.
  convenience init(
    port: UInt16, trusting certificates: Certificates, as name: String? = nil, of own: Certificates? = nil
  )
    throws
  {
    var pair: [Int32] = [0, 0]
    guard socketpair(AF_UNIX, Self.stream, 0, &pair) == 0 else { throw Failure("socketpair(2): \(errno)") }
    try self.init(descriptor: pair[0])
    let own = own ?? certificates
    let client = Process()
    client.executableURL = URL(filePath: "/usr/bin/env")
    client.arguments =
      ["openssl", "s_client", "-connect", "127.0.0.1:\(port)", "-servername", "localhost", "-quiet"]
      + ["-CAfile", certificates.path("ca.pem"), "-verify_return_error"]
      + (name.map { ["-cert", own.path("\($0).pem"), "-key", own.path("\($0).key")] } ?? [])
    let end = FileHandle(fileDescriptor: pair[1], closeOnDealloc: true)
    client.standardInput = end
    client.standardOutput = end
    client.standardError = FileHandle.nullDevice
    try client.run()
    try end.close()
    self.client = client
  }

  private init(descriptor: Int32) throws {
    guard descriptor >= 0 else { throw Failure("socket(2): \(errno)") }
    self.descriptor = descriptor
    // A concurrently started program must not inherit the descriptor.
    _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
    try set(SO_RCVTIMEO, Self.patience)
    try set(SO_SNDTIMEO, Self.patience)
  }

  private func connect<Address>(to address: Address) throws {
    try with(address, "connect") { Foundation.connect(descriptor, $0, $1) }
  }

  private func with<Address>(
    _ address: Address, _ call: String, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32
  ) throws {
    let status = withUnsafePointer(to: address) { address in
      address.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, socklen_t(MemoryLayout<Address>.size)) }
    }
    guard status == 0 else { throw Failure("\(call)(2): \(errno)") }
  }

  deinit {
    close(descriptor)
    if let client, client.isRunning { client.terminate() }
  }

  private func set<Value: BitwiseCopyable>(_ option: Int32, _ value: Value) throws {
    var value = value
    guard setsockopt(descriptor, SOL_SOCKET, option, &value, socklen_t(MemoryLayout<Value>.size)) == 0 else {
      throw Failure("setsockopt(2): \(errno)")
    }
  }

  func send(_ text: String) throws { try send(Data(text.utf8)) }

  func send(_ data: Data) throws {
    var rest = data[...]
    while !rest.isEmpty {
      let count = rest.withUnsafeBytes { Foundation.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
      guard count > 0 else { throw Failure("send(2): \(errno)") }
      rest = rest.dropFirst(count)
    }
  }

  /// Sends as many of the bytes as the system accepts without waiting for the server to read.
  func sendWithoutWaiting(_ text: String) throws {
    var rest = Data(text.utf8)[...]
    while !rest.isEmpty {
      let flags = Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT)
      let count = rest.withUnsafeBytes { Foundation.send(descriptor, $0.baseAddress, $0.count, flags) }
      if count < 0, errno == EAGAIN { return }
      guard count > 0 else { throw Failure("send(2): \(errno)") }
      rest = rest.dropFirst(count)
    }
  }

  /// Shuts down the sending direction; responses can still be read.
  func endSending() { shutdown(descriptor, Int32(SHUT_WR)) }

  /// Resets the connection, like a client that is killed with unread bytes.
  func reset() {
    var linger = linger(l_onoff: 1, l_linger: 0)
    setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &linger, socklen_t(MemoryLayout.size(ofValue: linger)))
    shutdown(descriptor, Int32(SHUT_RDWR))
  }

  /// - Returns: `false` at the end of the connection, and after a reset.
  private func receive(upTo byteCount: Int = 65_536) throws -> Bool {
    var buffer = [UInt8](repeating: 0, count: byteCount)
    let count = recv(descriptor, &buffer, buffer.count, 0)
    guard count >= 0 || errno == ECONNRESET else { throw Failure("recv(2): \(errno)") }
    guard count > 0 else { return false }
    received.append(contentsOf: buffer[..<count])
    return true
  }

  /// Returns the first unread byte.
  func firstByte() throws -> UInt8 {
    while received.isEmpty {
      guard try receive(upTo: 1) else { throw Failure("the connection has ended") }
    }
    return received[received.startIndex]
  }

  /// Returns the next line without its terminator, or `nil` at the end of the connection.
  private func line() throws -> String? {
    while true {
      if let end = received.range(of: Data("\r\n".utf8)) {
        let line = String(decoding: received[..<end.lowerBound], as: UTF8.self)
        received.removeSubrange(..<end.upperBound)
        return line
      }
      guard try receive() else { return nil }
    }
  }

  struct Answer {
    let status: Int
    let fields: [String: String]
    let body: Data

    var text: String { String(decoding: body, as: UTF8.self) }
  }

  /// Returns the next response, including informational ones, whose body has a length or is chunked.
  ///
  /// - Parameter pause: The client's pause after each piece of the body, in microseconds.
  func answer(toHead: Bool = false, pause: UInt32 = 0) throws -> Answer {
    let (status, fields) = try head()
    if !toHead, fields["transfer-encoding"] == "chunked" {
      var body = Data()
      while let chunk = try chunk() { body += chunk }
      return Answer(status: status, fields: fields, body: body)
    }
    let length = toHead ? 0 : fields["content-length"].flatMap { Int($0) } ?? 0
    return Answer(status: status, fields: fields, body: try take(length, pause: pause))
  }

  /// Returns the next response without its body, which is still unread.
  func head() throws -> (status: Int, fields: [String: String]) {
    guard let first = try line() else { throw Failure("the connection has ended") }
    let parts = first.split(separator: " ")
    guard parts.count > 1, parts[0].hasPrefix("HTTP/1."), let status = Int(parts[1]) else {
      throw Failure("no answer begins by \(first)")
    }
    var fields: [String: String] = [:]
    while let line = try line(), !line.isEmpty {
      guard let colon = line.firstIndex(of: ":") else { throw Failure("no field: \(line)") }
      fields[line[..<colon].lowercased()] = line[line.index(after: colon)...].trimmingCharacters(in: .whitespaces)
    }
    return (status, fields)
  }

  /// Returns the next chunk, or `nil` for the last one, which is empty.
  func chunk() throws -> Data? {
    guard let text = try line(), let length = Int(text, radix: 16) else { throw Failure("there is no chunk") }
    let chunk = try take(length)
    guard try line() == "" else { throw Failure("a chunk does not end") }
    return chunk.isEmpty ? nil : chunk
  }

  /// Returns this number of the next bytes.
  func take(_ length: Int, pause: UInt32 = 0) throws -> Data {
    while received.count < length {
      guard try receive() else { throw Failure("the body breaks off: \(received.count) of \(length)") }
      if pause > 0 { usleep(pause) }
    }
    defer { received.removeFirst(length) }
    return Data(received.prefix(length))
  }

  /// A Boolean value that indicates whether the connection ends without further bytes.
  var hasEnded: Bool { received.isEmpty && (try? receive()) == false }
}
