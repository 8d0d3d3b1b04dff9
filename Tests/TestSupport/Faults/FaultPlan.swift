internal import Locks
package import Posix
package import SystemPackage

extension Files {
  /// Where clocks of tests begin: later than anything was looked at.
  package static let startOfTests: Int64 = 1_000_000

  /// Its clock stands still, so its calls do not depend on the machine's load.
  package static func still(intercepting intercept: @escaping Interceptor) -> Files {
    Files(intercepting: intercept, clock: { startOfTests })
  }
}

/// Decides, call by call, which system calls of a `Files` fail, and remembers what was called.
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

  /// Which calls fail and how.
  package struct Fault: Sendable {
    /// Counts from 1 among the calls of `kinds`.
    package var occurrence: Int
    package var kinds: Set<SystemCall>
    package var errno: Errno
    package var persistence: Persistence

    /// - Parameter kinds: nil for calls of every kind.
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

  /// `Files` whose calls go through this plan.
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

  /// Starts counting towards a fault.
  package func arm(_ fault: Fault) {
    state.withLock {
      $0.fault = fault
      $0.met = 0
      $0.failed = []
    }
  }

  /// Lets a kind of call always fail, as a kernel or file system does that lacks it. Not counted as a fault.
  package func refuse(_ kind: SystemCall, _ errno: Errno) {
    state.withLock { $0.refused[kind] = errno }
  }

  package func disarm() {
    state.withLock { $0.fault = nil }
  }

  /// Cuts reads and writes short: `bytes` answers how many the transfer of that number, counted from 1, may move.
  package func limitTransfers(_ bytes: @escaping @Sendable (_ transfer: Int) -> Int?) {
    state.withLock {
      $0.transferLimit = bytes
      $0.transfers = 0
    }
  }

  package var calls: [Call] { state.withLock { $0.calls } }
  /// The armed fault's; 0 without one.
  package var failedErrno: Errno { state.withLock { $0.fault?.errno ?? Errno(rawValue: 0) } }
  package var failed: [Call] { state.withLock { $0.failed } }
  package var transfers: Int { state.withLock { $0.transfers } }

  package func forgetCalls() {
    state.withLock { $0.calls = [] }
  }
}
