/// What an operation said of itself.
public struct OperationResult: Codable, Hashable, Sendable {
  public enum Outcome: String, Codable, Sendable {
    case done, notFound, notLocked, damaged
    /// Others are at it.
    case busy
    case failed
  }

  public var outcome: Outcome
  /// The digest of the payload that a load returned.
  public var payload: String?
  /// The error's description, for people.
  public var message: String?
  /// Why the system call failed, if one did.
  public var errno: Int32?

  public init(_ outcome: Outcome, payload: String? = nil, message: String? = nil, errno: Int32? = nil) {
    self.outcome = outcome
    self.payload = payload
    self.message = message
    self.errno = errno
  }
}
