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

/// A connection whose bytes a test writes by itself, right or wrong.
final class Connection {
  private let descriptor: Int32
  private var received = Data()

  /// Longer than anything takes here: a test that waits in vain fails, and does not hang.
  private static let patience = timeval(tv_sec: 20, tv_usec: 0)

  /// - Parameter receiveBuffer: bytes that the system takes ahead of the test; nil for what it likes.
  init(port: UInt16, receiveBuffer: Int32? = nil) throws {
    #if canImport(Darwin)
      let kind = SOCK_STREAM
    #else
      let kind = Int32(SOCK_STREAM.rawValue)
    #endif
    descriptor = socket(AF_INET, kind, 0)
    try set(SO_RCVTIMEO, Self.patience)
    try set(SO_SNDTIMEO, Self.patience)
    if let receiveBuffer { try set(SO_RCVBUF, receiveBuffer) }
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = port.bigEndian
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    let status = withUnsafePointer(to: &address) { address in
      address.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
        Foundation.connect(descriptor, address, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
    guard status == 0 else { throw Failure("connect(2): \(errno)") }
  }

  deinit { close(descriptor) }

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

  /// Sends no more; answers can still be read.
  func endSending() { shutdown(descriptor, Int32(SHUT_WR)) }

  /// Ends the connection by a reset, as a client that is killed with bytes unread.
  func reset() {
    var linger = linger(l_onoff: 1, l_linger: 0)
    setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &linger, socklen_t(MemoryLayout.size(ofValue: linger)))
    shutdown(descriptor, Int32(SHUT_RDWR))
  }

  /// - Returns: false at the end of the connection, and if it is reset.
  private func receive(upTo byteCount: Int = 65_536) throws -> Bool {
    var buffer = [UInt8](repeating: 0, count: byteCount)
    let count = recv(descriptor, &buffer, buffer.count, 0)
    guard count >= 0 || errno == ECONNRESET else { throw Failure("recv(2): \(errno)") }
    guard count > 0 else { return false }
    received.append(contentsOf: buffer[..<count])
    return true
  }

  /// The first byte of what is to be read next.
  func firstByte() throws -> UInt8 {
    while received.isEmpty {
      guard try receive(upTo: 1) else { throw Failure("the connection has ended") }
    }
    return received[received.startIndex]
  }

  /// The next line, without its end; nil at the end of the connection.
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

  /// The next answer, informational ones too, whose body has a length or comes in chunks.
  ///
  /// - Parameter pause: how long the client waits after each piece of the body, in microseconds.
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

  /// The next answer without its body, which is still to come.
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

  /// The next chunk; nil for the last one, which is empty.
  func chunk() throws -> Data? {
    guard let text = try line(), let length = Int(text, radix: 16) else { throw Failure("there is no chunk") }
    let chunk = try take(length)
    guard try line() == "" else { throw Failure("a chunk does not end") }
    return chunk.isEmpty ? nil : chunk
  }

  /// As many of the next bytes.
  func take(_ length: Int, pause: UInt32 = 0) throws -> Data {
    while received.count < length {
      guard try receive() else { throw Failure("the body breaks off: \(received.count) of \(length)") }
      if pause > 0 { usleep(pause) }
    }
    defer { received.removeFirst(length) }
    return Data(received.prefix(length))
  }

  /// Whether nothing more comes, and the connection ends.
  var hasEnded: Bool { received.isEmpty && (try? receive()) == false }
}
