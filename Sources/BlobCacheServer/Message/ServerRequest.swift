/// A request, whatever transport has brought it.
public struct ServerRequest: Sendable {
  /// Such as `GET`, in the letters that were sent: methods are compared with regard to case (RFC 9110, 9.1).
  public var method: String
  /// The target as it was sent, such as `/v1/blobs/a%2Fb?lock`.
  public var target: String
  public var fields: HeaderFields
  public var body: MessageBody
  /// The number of the user whose process asks, where the transport tells it, as a Unix socket does.
  public var peerUser: UInt32?

  public init(method: String, target: String, fields: HeaderFields = [:], body: MessageBody = .none) {
    self.method = method
    self.target = target
    self.fields = fields
    self.body = body
  }
}
