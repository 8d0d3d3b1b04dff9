/// Why a remote engine did not do what it was asked.
///
/// A load never throws it: a remote failure is a miss, and an event tells of it.
public struct RemoteError: Error, Sendable {
  /// The kinds of failure, by what is done about them.
  public enum Kind: Hashable, Sendable {
    /// No connection, or one that broke.
    case unreachable
    /// Nothing came in time.
    case timedOut
    /// The engine knows the caller not, or lets it not do this. A setting must be changed.
    case refused
    /// The engine asks for a pause; for how long, if it says.
    case throttled(Duration?)
    /// The engine failed, or answered what was not expected.
    case failed
    /// What the engine has is no record of the key.
    case damaged
    /// The engine cannot do it.
    case unsupported
  }

  public let kind: Kind
  /// What happened, with the engine's name, and without a secret.
  public let message: String
  public let cause: (any Error)?
  /// Whether the engine was not even asked.
  var wasNotTried = false

  public init(_ kind: Kind, _ message: String, cause: (any Error)? = nil) {
    self.kind = kind
    self.message = message
    self.cause = cause
  }

  /// An error of an engine, whatever its type.
  init(anything error: any Error, from engine: String) {
    self = error as? RemoteError ?? RemoteError(.failed, "\(engine): \(error)", cause: error)
  }

  /// Whether another try may succeed.
  var mayPass: Bool {
    switch kind {
    case .unreachable, .timedOut, .throttled, .failed: true
    case .refused, .damaged, .unsupported: false
    }
  }
}

extension RemoteError: CustomStringConvertible {
  public var description: String { message }
}
