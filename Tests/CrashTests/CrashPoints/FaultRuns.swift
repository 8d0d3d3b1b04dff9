import Dispatch
import Foundation
import Locks
import Testing

/// Runs many cases on all cores, and reports their number and violations.
enum FaultRuns {
  struct Outcome: Sendable {
    var runs = 0
    var violations: [String] = []
  }

  /// - Throws: An error that prevented a case from running.
  static func run<Case: Sendable>(
    _ name: String, _ cases: [Case], _ body: @escaping @Sendable (Case, StartDirectories) throws -> Outcome
  ) async throws {
    let start = ContinuousClock.now
    let sum = try await collect(cases, body)
    print("\(name): \(sum.runs) runs in \(start.duration(to: .now)), \(sum.violations.count) violations")
    for violation in sum.violations.prefix(60) { Issue.record(Comment(rawValue: violation)) }
    #expect(sum.violations.isEmpty)
  }

  static func collect<Case: Sendable>(
    _ cases: [Case], _ body: @escaping @Sendable (Case, StartDirectories) throws -> Outcome
  ) async throws -> Outcome {
    let directories = try StartDirectories()
    // Waiting for children blocks a thread, and the cooperative pool has too few threads for that.
    return try await withCheckedThrowingContinuation { continuation in
      DispatchQueue.global().async {
        let sum = Lock(Result<Outcome, any Error>.success(Outcome()))
        DispatchQueue.concurrentPerform(iterations: cases.count) { index in
          let result = Result { try body(cases[index], directories) }
          sum.withLock { sum in
            sum = sum.flatMap { soFar in
              result.map { Outcome(runs: soFar.runs + $0.runs, violations: soFar.violations + $0.violations) }
            }
          }
        }
        continuation.resume(with: sum.withLock { $0 })
      }
    }
  }
}
