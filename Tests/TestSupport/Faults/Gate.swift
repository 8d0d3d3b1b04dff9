internal import Dispatch

/// A gate that one thread opens for other threads, which wait for it; it stays open.
///
/// Waiting has a timeout, so that a test fails if the thread that opens the gate has failed.
public final class Gate: Sendable {
  private let semaphore = DispatchSemaphore(value: 0)

  public init() {}

  public func open() { semaphore.signal() }

  /// - Returns: A Boolean value that indicates whether the gate was opened within five minutes.
  @discardableResult
  public func wait() -> Bool {
    guard semaphore.wait(timeout: .now() + 300) == .success else { return false }
    semaphore.signal()
    return true
  }
}
