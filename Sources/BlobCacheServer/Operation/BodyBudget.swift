internal import Locks

/// A limit for the bytes that all request bodies together occupy during their transfer.
///
/// The bodies of one caller occupy at most three quarters of it, so that a caller whose bodies do not end leaves room
/// for the others.
final class BodyBudget: Sendable {
  private struct Taken {
    var byteCount: Int64 = 0
    var byCaller: [String: Int64] = [:]
  }

  private let limit: Int64
  private let taken = Lock(Taken())

  init(limit: Int64) { self.limit = limit }

  private var callerLimit: Int64 { limit - limit / 4 }

  /// - Parameter own: The bytes that the request already occupies. A single request may exceed the limit.
  fileprivate func take(_ byteCount: Int64, own: Int64, for caller: String?) -> Bool {
    taken.withLock { taken in
      let ofCaller = caller.map { taken.byCaller[$0, default: 0] } ?? 0
      let isWithinLimits =
        byteCount <= limit - taken.byteCount && (caller == nil || byteCount <= callerLimit - ofCaller)
      guard taken.byteCount == own || isWithinLimits else { return false }
      taken.byteCount += byteCount
      if let caller { taken.byCaller[caller] = ofCaller + byteCount }
      return true
    }
  }

  fileprivate func giveBack(_ byteCount: Int64, of caller: String?) {
    taken.withLock { taken in
      taken.byteCount -= byteCount
      guard let caller, let ofCaller = taken.byCaller[caller] else { return }
      taken.byCaller[caller] = ofCaller > byteCount ? ofCaller - byteCount : nil
    }
  }
}

/// The share of a budget that one request occupies. It is released with the last reference.
final class BodyShare: Sendable {
  private let budget: BodyBudget
  private let caller: String?
  private let own = Lock<Int64>(0)

  init(of budget: BodyBudget, for caller: String?) {
    self.budget = budget
    self.caller = caller
  }

  deinit { giveBack() }

  func giveBack() {
    budget.giveBack(
      own.withLock { own in
        defer { own = 0 }
        return own
      }, of: caller)
  }

  func take(_ byteCount: Int64) throws(Refusal) {
    let isTaken = own.withLock { own in
      guard budget.take(byteCount, own: own, for: caller) else { return false }
      own += byteCount
      return true
    }
    guard isTaken else {
      throw Refusal(503, "too many bytes are on their way here", fields: ["Retry-After": "1"])
    }
  }
}
