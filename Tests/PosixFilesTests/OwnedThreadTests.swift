import Locks
import PosixFiles
import Testing

@Suite(.timeLimit(.minutes(1))) struct OwnedThreadTests {
  @Test func whoJoinsWaitsForTheEndOfTheWork() throws {
    let mayEnd = Monitor(false)
    let hasEnded = Lock(false)
    let thread = try OwnedThread {
      mayEnd.wait { $0 ? .done(()) : .wait(nil) }
      hasEnded.withLock { $0 = true }
    }
    #expect(!hasEnded.withLock { $0 })
    mayEnd.change { $0 = true }
    thread.join()
    #expect(hasEnded.withLock { $0 })
    // Joined already: there is nothing to wait for.
    thread.join()
  }

  @Test func oneThatNobodyJoinsEndsByItself() throws {
    let hasEnded = Monitor(false)
    try OwnedThread { hasEnded.change { $0 = true } }
    hasEnded.wait { $0 ? .done(()) : .wait(nil) }
  }
}
