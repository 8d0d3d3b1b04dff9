internal import Locks
package import Posix
package import SystemPackage

extension Files {
  /// The start of test clocks, which is later than any previous check.
  package static let startOfTests: Int64 = 1_000_000

  /// Returns `Files` with a clock that stands still, so that its calls do not depend on the machine's load.
  package static func still(intercepting intercept: @escaping Interceptor) -> Files {
    Files(intercepting: intercept, clock: { startOfTests })
  }
}

/// A plan that decides for each system call of a `Files` whether it fails, and records the calls.
package final class FaultPlan: Sendable {
  package struct Call: Sendable, CustomStringConvertible {
    package let kind: SystemCall
    package let location: Location

    package var path: FilePath { location.path }
    package var description: String { "\(kind) \(path.lastComponent?.string ?? "/")" }
  }

  package enum Persistence: CaseIterable, Sendable {
    case once, fromThenOn
  }

  /// The calls that fail, and their error.
  package struct Fault: Sendable {
    /// The number of the first failing call, counted from 1 among the calls of `kinds`.
    package var occurrence: Int
    package var kinds: Set<SystemCall>
    package var errno: Errno
    package var persistence: Persistence

    /// - Parameter kinds: The kinds of calls that are counted, or `nil` for all.
    package init(
      _ errno: Errno, call occurrence: Int, of kinds: Set<SystemCall>? = nil, _ persistence: Persistence = .once
    ) {
      self.occurrence = occurrence
      self.kinds = kinds ?? Set(SystemCall.allCases)
      self.errno = errno
      self.persistence = persistence
    }
  }

  private struct State {
    var fault: Fault?
    var met = 0
    var refused: [SystemCall: Errno] = [:]
    var calls: [Call] = []
    var failed: [Call] = []
    var transferLimit: (@Sendable (_ transfer: Int) -> Int?)?
    var transfers = 0
  }

  private let state = Lock(State())

  package init() {}

  /// Returns `Files` whose calls are subject to this plan.
  package func files(accessTimeTellsOwner: Bool = false) -> Files {
    Files(
      accessTimeTellsOwner: accessTimeTellsOwner, intercepting: { [self] in intercept($0, $1) },
      clock: { Files.startOfTests })
  }

  private func intercept(_ kind: SystemCall, _ location: Location) -> Files.Interception? {
    state.withLock { state in
      let call = Call(kind: kind, location: location)
      state.calls.append(call)
      if let errno = state.refused[kind] { return .fail(errno) }
      if let fault = state.fault, fault.kinds.contains(kind) {
        state.met += 1
        if state.met == fault.occurrence || (state.met > fault.occurrence && fault.persistence == .fromThenOn) {
          state.failed.append(call)
          return .fail(fault.errno)
        }
      }
      guard [.read, .readCached, .write].contains(kind), let limit = state.transferLimit else { return nil }
      state.transfers += 1
      return limit(state.transfers).map { .transferAtMost($0) }
    }
  }

  /// Starts counting calls for a fault.
  package func arm(_ fault: Fault) {
    state.withLock {
      $0.fault = fault
      $0.met = 0
      $0.failed = []
    }
  }

  /// Makes all calls of a kind fail, like a system without it; these are not counted as faults.
  package func refuse(_ kind: SystemCall, _ errno: Errno) {
    state.withLock { $0.refused[kind] = errno }
  }

  package func disarm() {
    state.withLock { $0.fault = nil }
  }

  /// Limits the bytes of reads and writes; `bytes` returns the limit for the number of a transfer, counted from 1.
  package func limitTransfers(_ bytes: @escaping @Sendable (_ transfer: Int) -> Int?) {
    state.withLock {
      $0.transferLimit = bytes
      $0.transfers = 0
    }
  }

  package var calls: [Call] { state.withLock { $0.calls } }
  /// The error of the armed fault, or 0.
  package var failedErrno: Errno { state.withLock { $0.fault?.errno ?? Errno(rawValue: 0) } }
  package var failed: [Call] { state.withLock { $0.failed } }
  package var transfers: Int { state.withLock { $0.transfers } }

  package func forgetCalls() {
    state.withLock { $0.calls = [] }
  }
}
