internal import Dispatch

/// What one thread opens for others, which wait at it until then. Once open, it stays so.
///
/// Nobody waits for ever: where what opens it has failed, the test is to fail too, and to say so.
public final class Gate: Sendable {
  private let semaphore = DispatchSemaphore(value: 0)

  public init() {}

  public func open() { semaphore.signal() }

  /// - Returns: whether it was opened within five minutes, which the slowest machine does not take.
  @discardableResult
  public func wait() -> Bool {
    guard semaphore.wait(timeout: .now() + 300) == .success else { return false }
    semaphore.signal()
    return true
  }
}
