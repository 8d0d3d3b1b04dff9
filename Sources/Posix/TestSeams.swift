package import SystemPackage

// Members that only tests use.

extension Files {
  /// A test's decision about a call that is about to happen.
  package enum Interception: Sendable {
    /// The call does not happen and fails so.
    case fail(Errno)
    /// The call is not made and has this result; not for transfers.
    case answer(Int)
    /// The call transfers at most this many bytes.
    case transferAtMost(Int)
  }

  /// The place comes unjoined: a test that only counts calls need not pay for paths.
  package typealias Interceptor = @Sendable (SystemCall, Location) -> Interception?

  /// What `moment` answers in a test: what is looked at once a second costs calls that depend on the machine's load else.
  package typealias Clock = @Sendable () -> Int64
}

extension SystemCall {
  /// Whether it is a step in shared memory, and no system call.
  package var isStep: Bool {
    switch self {
    case .takeStripe, .freeStripe, .announce, .exchangeEntry, .markDead, .growIndex: true
    default: false
    }
  }

  /// Whether the call may wait for a disk, a lock or another process, on a local file system.
  ///
  /// Spec/Performance.md argues for each that does not. Of `status` this holds for an open file, not for a name.
  package var mayWait: Bool {
    switch self {
    case .openCached, .readCached, .status, .close: false
    default: true
    }
  }
}
