package import SystemPackage

// Members that only tests use.

extension Files {
  /// A test's decision about a call that is about to happen.
  package enum Interception: Sendable {
    case fail(Errno)
    /// The call is skipped and returns the result; not for transfers.
    case answer(Int)
    case transferAtMost(Int)
  }

  /// The location is not joined, so that a test that only counts calls does not pay for paths.
  package typealias Interceptor = @Sendable (SystemCall, Location) -> Interception?

  /// The clock of `moment` in a test. Otherwise, calls made once a second would depend on the machine's load.
  package typealias Clock = @Sendable () -> Int64
}

extension SystemCall {
  /// A Boolean value that indicates whether the case is a step in shared memory instead of a system call.
  package var isStep: Bool {
    switch self {
    case .takeStripe, .freeStripe, .announce, .exchangeEntry, .markDead, .growIndex: true
    default: false
    }
  }

  /// A Boolean value that indicates whether the call may wait; Spec/Performance.md has the reasons.
  ///
  /// For `status`, the value applies to open files, not to names.
  package var mayWait: Bool {
    switch self {
    case .openCached, .readCached, .status, .close: false
    default: true
    }
  }
}
