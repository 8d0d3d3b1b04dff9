/// An HTTP request, independent of the transport.
public struct ServerRequest: Sendable {
  /// The unmodified method, such as `GET`. Methods are case-sensitive (RFC 9110, 9.1).
  public var method: String
  /// The unmodified target, such as `/v1/blobs/a%2Fb?lock`, or `http://localhost/v1/blobs/a%2Fb?lock`.
  public var target: String
  public var fields: HeaderFields
  public var body: MessageBody
  /// The numeric ID of the client's user, if the transport reports it, as a Unix socket does.
  public var peerUser: UInt32?
  /// A text that identifies the client's machine, if the transport reports it, such as its address.
  public var peer: String?
  /// A text that identifies the caller, to limit what all requests of one caller occupy.
  var caller: String?

  public init(method: String, target: String, fields: HeaderFields = [:], body: MessageBody = .none) {
    self.method = method
    self.target = target
    self.fields = fields
    self.body = body
  }
}

extension ServerRequest {
  /// The request with a path as its target.
  ///
  /// Clients of a proxy send the whole address as the target. Its host then replaces the field `Host` (RFC 9112, 3.2.2).
  var inOriginForm: ServerRequest {
    guard target.utf8.first != UInt8(ascii: "/"), let colon = target.firstRange(of: "://"),
      ["http", "https"].contains(target[..<colon.lowerBound].lowercased())
    else { return self }
    let rest = target[colon.upperBound...]
    let host = rest.prefix { $0 != "/" && $0 != "?" }
    let path = rest[host.endIndex...]
    var request = self
    request.target = path.hasPrefix("/") ? String(path) : "/" + path
    request.fields = ["Host": String(host)]
    for field in fields.all where field.name.lowercased() != "host" { request.fields.append(field.name, field.value) }
    return request
  }
}

/// An HTTP response, independent of the transport.
///
/// The transport adds the fields of the connection: `Date`, `Content-Length` for the body, and `Connection`.
public struct ServerResponse: Sendable {
  public var status: Int
  public var fields: HeaderFields
  public var body: MessageBody

  public init(status: Int, fields: HeaderFields = [:], body: MessageBody = .none) {
    self.status = status
    self.fields = fields
    self.body = body
  }
}

extension ServerResponse {
  static func line(_ status: Int, _ text: String) -> ServerResponse {
    ServerResponse(
      status: status,
      fields: ["Content-Type": "text/plain; charset=utf-8", "Cache-Control": "no-store"], body: .text(text + "\n"))
  }

  var withoutBody: ServerResponse {
    var response = self
    response.body = .omitted(byteCount: body.byteCount)
    return response
  }
}

/// The ordered header fields of a message. Names are case-insensitive (RFC 9110, 5.1).
public struct HeaderFields: Sendable, ExpressibleByDictionaryLiteral {
  public private(set) var all: [(name: String, value: String)] = []

  public init() {}

  public init(dictionaryLiteral elements: (String, String)...) {
    all = elements.map { (name: $0.0, value: $0.1) }
  }

  public mutating func reserveCapacity(_ count: Int) { all.reserveCapacity(count) }

  public mutating func append(_ name: String, _ value: String) { all.append((name, value)) }

  /// Replaces all fields of a name with one.
  mutating func replace(_ name: String, with value: String) {
    remove(name)
    append(name, value)
  }

  mutating func remove(_ name: String) { all.removeAll { Self.isSame($0.name, name) } }

  /// The first value of a name, or `nil` if the field does not exist.
  ///
  /// - Complexity: O(*n*) for *n* fields.
  public subscript(name: String) -> String? {
    all.first { Self.isSame($0.name, name) }?.value
  }

  /// Returns all values of a name joined by commas, because a list may be sent in several fields (RFC 9110, 5.3).
  public func list(_ name: String) -> String? {
    var joined: String?
    for field in all where Self.isSame(field.name, name) {
      joined = joined.map { $0 + ", " + field.value } ?? field.value
    }
    return joined
  }

  public func count(of name: String) -> Int {
    all.reduce(0) { $0 + (Self.isSame($1.name, name) ? 1 : 0) }
  }

  private static func isSame(_ a: String, _ b: String) -> Bool {
    guard a.utf8.count == b.utf8.count else { return false }
    return zip(a.utf8, b.utf8).allSatisfy { lowercased($0) == lowercased($1) }
  }

  private static func lowercased(_ byte: UInt8) -> UInt8 {
    (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte) ? byte | 0x20 : byte
  }
}
