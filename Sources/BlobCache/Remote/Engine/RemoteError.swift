/// A failure of a remote engine.
///
/// A load never throws it, because a remote failure is a miss that an event reports.
public struct RemoteError: Error, Sendable {
  /// The kinds of failure, which determine how the tier reacts.
  public enum Kind: Hashable, Sendable {
    /// The connection could not be opened, or broke.
    case unreachable
    /// The engine did not answer before the timeout.
    case timedOut
    /// The engine refused the caller, whatever the object, so a setting must be changed.
    case refused
    /// The engine refused this request for one object. Requests for other objects may succeed.
    case forbidden
    /// The engine asks for a pause, of the given length if it is known.
    case throttled(Duration?)
    /// The engine failed, or its answer was unexpected.
    case failed
    /// The engine's object is not a valid record of the key.
    case damaged
    /// The engine does not support the operation.
    case unsupported
  }

  public let kind: Kind
  /// A description of the failure with the engine's name, without secrets.
  public let message: String
  public let cause: (any Error)?
  /// The kind of request whose circuit breaker is open, or `nil` if a request was sent.
  var passedOver: RemoteRequests.Kind?

  public init(_ kind: Kind, _ message: String, cause: (any Error)? = nil) {
    self.kind = kind
    self.message = message
    self.cause = cause
  }

  /// Creates a remote error from any error of an engine.
  init(anything error: any Error, from engine: String) {
    self = error as? RemoteError ?? RemoteError(.failed, "\(engine): \(error)", cause: error)
  }

  /// A Boolean value that indicates whether a retry may succeed.
  var mayPass: Bool {
    switch kind {
    case .unreachable, .timedOut, .throttled, .failed: true
    case .refused, .forbidden, .damaged, .unsupported: false
    }
  }
}

extension RemoteError: CustomStringConvertible {
  public var description: String { message }
}
