internal import Locks

final class RequestCounts: Sendable {
  struct Series: Hashable, Comparable {
    let route: String
    let method: String
    let status: Int

    static func < (a: Series, b: Series) -> Bool {
      (a.route, a.method, a.status) < (b.route, b.method, b.status)
    }
  }

  private let counts = Lock<[Series: Int64]>([:])

  /// The methods that are counted by name. Others are counted together, because clients could invent any number.
  private static let methods: Set = ["GET", "HEAD", "PUT", "DELETE", "POST", "OPTIONS", "PROPFIND", "MKCOL"]

  func add(_ route: Route?, _ method: String, status: Int) {
    let series = Series(
      route: route?.name ?? "none", method: Self.methods.contains(method) ? method : "other", status: status)
    counts.withLock { $0[series, default: 0] += 1 }
  }

  var all: [(series: Series, count: Int64)] {
    counts.withLock { Array($0) }.sorted { $0.key < $1.key }.map { (series: $0.key, count: $0.value) }
  }
}

/// A limit for the bytes that all request bodies together occupy during their transfer.
final class BodyBudget: Sendable {
  private let limit: Int64
  private let taken = Lock<Int64>(0)

  init(limit: Int64) { self.limit = limit }

  /// - Parameter own: The bytes that the request already occupies. A single request may exceed the limit.
  fileprivate func take(_ byteCount: Int64, own: Int64) -> Bool {
    taken.withLock { taken in
      guard taken == own || byteCount <= limit - taken else { return false }
      taken += byteCount
      return true
    }
  }

  fileprivate func giveBack(_ byteCount: Int64) { taken.withLock { $0 -= byteCount } }
}

/// The share of a budget that one request occupies. It is released with the last reference.
final class BodyShare: Sendable {
  private let budget: BodyBudget
  private let own = Lock<Int64>(0)

  init(of budget: BodyBudget) { self.budget = budget }

  deinit { giveBack() }

  func giveBack() {
    budget.giveBack(
      own.withLock { own in
        defer { own = 0 }
        return own
      })
  }

  func take(_ byteCount: Int64) throws(Refusal) {
    let isTaken = own.withLock { own in
      guard budget.take(byteCount, own: own) else { return false }
      own += byteCount
      return true
    }
    guard isTaken else {
      throw Refusal(503, "too many bytes are on their way here", fields: ["Retry-After": "1"])
    }
  }
}
