import TestSupport

/// The faults to inject at the calls of a run.
enum PossibleFaults {
  static let errors = [
    "EIO", "ENOSPC", "EDQUOT", "EROFS", "EACCES", "EMFILE", "ENFILE", "ENOMEM", "EAGAIN", "ESTALE",
  ]

  /// Returns a kill before every call and in the middle of every payload write, and a short count at every transfer.
  static func crashes(_ calls: [TracedRun.Call]) -> [Fault] {
    calls.flatMap { call -> [Fault] in
      var faults = [Fault(call: call.number, kind: .kill)]
      guard let count = call.bytes, count > 1 else { return faults }
      // A header that is changed in place is 64 bytes of one page. The kernel copies them without checking for
      // signals, so a kill cannot interrupt it. 145 million reads of the torture test never saw a torn header. A
      // short count, which a full volume causes, is tested nevertheless.
      let isNew = call.path.contains(".tmp-") || call.path.contains("/#")
      let isHeaderInPlace = call.effect == "write" && !isNew
      if call.effect == "write", !isHeaderInPlace {
        faults += cuts(count).map { Fault(call: call.number, kind: .torn($0)) }
      }
      faults += cuts(count).map { Fault(call: call.number, kind: .short($0)) }
      return faults
    }
  }

  private static func cuts(_ count: Int) -> [Int] {
    Set([1, count / 2, count - 1]).sorted()
  }

  /// Returns every error at every call, once and permanently.
  static func errors(_ calls: [TracedRun.Call]) -> [Fault] {
    calls.flatMap { call in
      errors.flatMap { error in
        [true, false].map { Fault(call: call.number, kind: .fail(error, once: $0)) }
      }
    }
  }

  /// Returns one interruption of every call, because the call is retried.
  static func interruptions(_ calls: [TracedRun.Call]) -> [Fault] {
    calls.map { Fault(call: $0.number, kind: .fail("EINTR", once: true)) }
  }
}

extension Array {
  /// Returns a sample of this size that the seed determines. The long form has its own size, by default all elements.
  func sampled(_ count: Int, long: Int = .max, _ generator: inout SeededGenerator) -> [Element] {
    Array(shuffled(using: &generator).prefix(FaultTools.isLong ? long : count))
  }
}
