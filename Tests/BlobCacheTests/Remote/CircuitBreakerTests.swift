import Locks
import TestSupport
import Testing

@testable import BlobCache

/// The circuit breaker of a remote engine.
@Suite struct CircuitBreakerTests {
  private let clock = ManualClock(0)
  private let breaker: CircuitBreaker

  init() {
    let (clock, start) = (clock, ContinuousClock.now)
    breaker = CircuitBreaker(
      BreakerSettings(), now: { start.advanced(by: .seconds(clock.now.seconds)) }, jitter: { 1 })
  }

  private var isAdmitted: Bool { breaker.admit() != nil }

  @Test func failuresInARowOpenIt() {
    for _ in 0..<4 {
      #expect(isAdmitted)
      #expect(!breaker.fail(.failed))
    }
    #expect(isAdmitted)
    breaker.succeed()
    for _ in 0..<4 { #expect(!breaker.fail(.failed)) }
    #expect(breaker.fail(.failed))
    #expect(!isAdmitted)
  }

  @Test func halfOfManyOpensIt() {
    for _ in 0..<9 {
      breaker.succeed()
      #expect(!breaker.fail(.failed))
    }
    breaker.succeed()
    #expect(breaker.fail(.failed))
  }

  @Test func failuresOfLongAgoDoNotCount() {
    for _ in 0..<9 {
      breaker.succeed()
      #expect(!breaker.fail(.failed))
    }
    clock.advance(by: 11)
    breaker.succeed()
    #expect(!breaker.fail(.failed))
    #expect(isAdmitted)
  }

  @Test func oneRequestTriesIt() {
    for _ in 0..<5 { breaker.fail(.unreachable) }
    clock.advance(by: 1)
    let trial = breaker.admit()
    #expect(trial?.isTrial == true)
    #expect(!isAdmitted)
    #expect(breaker.condition == .tried)
    // Requests that started before the breaker opened do not decide the trial.
    #expect(!breaker.fail(.timedOut))
    breaker.leave(CircuitBreaker.Ticket())
    #expect(!isAdmitted)
    trial.map(breaker.leave)
    #expect(isAdmitted)
    breaker.succeed()
    #expect(breaker.condition == .inUse && breaker.pause == nil)
  }

  /// Each failed trial doubles the pause, up to one minute.
  @Test func pausesGrow() {
    for _ in 0..<5 { breaker.fail(.unreachable) }
    for pause in [1, 2, 4, 8, 16, 32, 60, 60] as [Int64] {
      #expect(breaker.pause == .seconds(pause))
      clock.advance(by: pause - 1)
      #expect(!isAdmitted)
      clock.advance(by: 1)
      let trial = breaker.admit()
      #expect(trial?.isTrial == true)
      breaker.fail(.timedOut, trial ?? CircuitBreaker.Ticket())
    }
  }

  @Test(arguments: [(nil, 1), (.zero, 1), (.seconds(7), 7), (.seconds(1000), 60)] as [(Duration?, Int64)])
  func aThrottledRequestIsHeeded(asked: Duration?, pause: Int64) {
    #expect(breaker.fail(.throttled(asked)))
    #expect(breaker.pause == .seconds(pause))
  }

  /// An engine that throttles repeatedly gets longer pauses, regardless of the pause that it asks for.
  @Test(arguments: [nil, .zero] as [Duration?]) func throttledTrialsDoubleThePause(asked: Duration?) {
    breaker.fail(.throttled(asked))
    for pause in [1, 2, 4, 8, 16, 32, 60, 60] as [Int64] {
      #expect(breaker.pause == .seconds(pause))
      clock.advance(by: pause)
      let trial = breaker.admit()
      #expect(trial?.isTrial == true)
      breaker.fail(.throttled(asked), trial ?? CircuitBreaker.Ticket())
    }
  }

  @Test func aRefusalIsLong() {
    #expect(breaker.fail(.refused))
    #expect(breaker.pause == .seconds(60))
  }
}
