public import BlobRecord
internal import Locks

/// A clock that advances only on request.
public final class ManualClock: Sendable {
  private let seconds: Lock<Int64>

  public init(_ seconds: Int64 = 1_700_000_000) {
    self.seconds = Lock(seconds)
  }

  public var now: UnixTime {
    get { UnixTime(seconds: seconds.withLock { $0 }) }
    set { seconds.withLock { $0 = newValue.seconds } }
  }

  public func advance(by delta: Int64) {
    seconds.withLock { $0 += delta }
  }
}
