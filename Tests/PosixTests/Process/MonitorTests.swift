import Locks
import Posix
import Testing

@Suite(.timeLimit(.minutes(30))) struct MonitorTests {
  @Test func whoWaitsSeesTheChange() throws {
    let monitor = Monitor(0)
    let answer = Monitor<Int?>(nil)
    try OwnedThread {
      let found: Int = monitor.wait { $0 >= 3 ? .done($0) : .wait(nil) }
      answer.change { $0 = found }
    }
    for _ in 0..<3 { monitor.change { $0 += 1 } }
    #expect(answer.wait { $0.map { .done($0) } ?? .wait(nil) } == 3)
  }

  @Test(arguments: [.zero, .seconds(-1), .nanoseconds(1), .milliseconds(5)] as [Duration])
  func timePassesWithoutAChange(duration: Duration) {
    let start = SystemClock.monotonic()
    var looks = 0
    Monitor(()).wait { _ in
      looks += 1
      // The check may come early, but must not succeed before the time.
      return looks > 1 && SystemClock.monotonic() - start >= duration ? .done(()) : .wait(duration)
    }
    #expect(looks > 1)
    #expect(SystemClock.monotonic() - start >= duration)
  }

  @Test func aTimeTooLongForTheClockIsWaitedForAllTheSame() throws {
    let monitor = Monitor(false)
    try OwnedThread { monitor.change { $0 = true } }
    monitor.wait { $0 ? .done(()) : .wait(.seconds(Int64.max)) }
  }

  @Test func whatAThrowingChangeThrowsIsPassedOn() {
    struct Failure: Error {}
    let monitor = Monitor(1)
    #expect(throws: Failure.self) {
      try monitor.change { state throws(Failure) in
        state = 2
        throw Failure()
      }
    }
    #expect(monitor.wait { .done($0) } == 2)
  }
}
