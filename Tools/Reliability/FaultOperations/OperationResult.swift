/// The result that an operation reported.
public struct OperationResult: Codable, Hashable, Sendable {
  public enum Outcome: String, Codable, Sendable {
    case done, notFound, notLocked, damaged
    /// Other processes hold the lock.
    case busy
    case failed
  }

  public var outcome: Outcome
  /// The digest of the payload that a load returned.
  public var payload: String?
  /// The description of the error, for people.
  public var message: String?
  /// The error of the system call that failed, if any.
  public var errno: Int32?

  public init(_ outcome: Outcome, payload: String? = nil, message: String? = nil, errno: Int32? = nil) {
    self.outcome = outcome
    self.payload = payload
    self.message = message
    self.errno = errno
  }
}
