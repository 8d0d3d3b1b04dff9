/// The body of a request has ended before it was whole: its sender has gone, or does not keep to the protocol.
public struct BodyBrokenOff: Error {
  public init() {}
}
