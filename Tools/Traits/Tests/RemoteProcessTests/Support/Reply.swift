import Foundation

/// The response to a request, which uses a new connection.
struct Reply {
  /// Thrown if no server listens, so that the request has not begun.
  struct NoConnection: Error {}

  let status: Int
  /// The values by field names in lower case.
  let fields: [String: String]
  let body: Data

  var text: String { String(decoding: body, as: UTF8.self) }

  /// - Parameter connection: A connection, or `nil` if no server listens.
  /// - Throws: `NoConnection` without a connection, or `Failure` if the response is incomplete.
  init(
    from connection: Connection?, _ method: String, _ target: String, _ fields: [String: String] = [:],
    _ body: Data = Data()
  ) throws {
    guard let connection else { throw NoConnection() }
    defer { connection.close() }
    connection.waits(for: 120)
    let lines = fields.map { "\($0.key): \($0.value)\r\n" }.joined()
    let head = "\(method) \(target) HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\(lines)"
    // A server that refuses a body may respond and close the connection during the write.
    connection.write(Data("\(head)Content-Length: \(body.count)\r\n\r\n".utf8) + body)
    var bytes = Data()
    while case let piece = connection.read(), !piece.isEmpty { bytes += piece }
    try self.init(bytes, hasBody: method != "HEAD")
  }

  private init(_ bytes: Data, hasBody: Bool) throws {
    guard let end = bytes.firstRange(of: Data("\r\n\r\n".utf8)) else { throw Failure("no answer") }
    let lines = String(decoding: bytes[..<end.lowerBound], as: UTF8.self).components(separatedBy: "\r\n")
    guard let status = lines[0].split(separator: " ").dropFirst().first.flatMap({ Int($0) }) else {
      throw Failure("it is answered \(lines[0])")
    }
    self.status = status
    let pairs = lines.dropFirst().map { $0.split(separator: ":", maxSplits: 1) }
    fields = Dictionary(
      pairs.map { ($0[0].lowercased(), $0.count > 1 ? $0[1].trimmingCharacters(in: .whitespaces) : "") },
      uniquingKeysWith: { first, _ in first })
    body = Data(bytes[end.upperBound...])
    if hasBody, let count = fields["content-length"], count != "\(body.count)" {
      throw Failure("of \(count) bytes \(body.count) came")
    }
  }
}
