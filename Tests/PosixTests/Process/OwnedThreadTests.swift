import Locks
import Posix
import Testing

@Suite(.timeLimit(.minutes(30))) struct OwnedThreadTests {
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
    // The thread was already joined, so this returns immediately.
    thread.join()
  }

  @Test func workThatJoinsItselfGoesOn() throws {
    let own = Monitor<OwnedThread?>(nil)
    let hasEnded = Monitor(false)
    let thread = try OwnedThread {
      own.wait { thread in thread.map { .done($0) } ?? .wait(nil) }.join()
      hasEnded.change { $0 = true }
    }
    own.change { $0 = thread }
    hasEnded.wait { $0 ? .done(()) : .wait(nil) }
  }

  @Test func oneThatNobodyJoinsEndsByItself() throws {
    let hasEnded = Monitor(false)
    try OwnedThread { hasEnded.change { $0 = true } }
    hasEnded.wait { $0 ? .done(()) : .wait(nil) }
  }
}
