internal import Locks

/// How many requests were answered, by what they were for and how.
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

  /// Methods that are counted by their names. A client may invent any number of others.
  private static let methods: Set = ["GET", "HEAD", "PUT", "DELETE", "POST", "OPTIONS", "PROPFIND", "MKCOL"]

  /// - Parameter route: nil for a request that has come to none.
  func add(_ route: Route?, _ method: String, status: Int) {
    let series = Series(
      route: route?.name ?? "none", method: Self.methods.contains(method) ? method : "other", status: status)
    counts.withLock { $0[series, default: 0] += 1 }
  }

  var all: [(series: Series, count: Int64)] {
    counts.withLock { Array($0) }.sorted { $0.key < $1.key }.map { (series: $0.key, count: $0.value) }
  }
}

/// Bytes that the bodies of all requests together may take while they arrive.
final class BodyBudget: Sendable {
  private let limit: Int64
  private let taken = Lock<Int64>(0)

  init(limit: Int64) { self.limit = limit }

  /// - Parameter own: what the request has taken before. It may go on beyond the limit where no other has taken any, so
  ///   that a body larger than the limit is stored too.
  /// - Returns: false beyond the limit.
  fileprivate func take(_ byteCount: Int64, own: Int64) -> Bool {
    taken.withLock { taken in
      guard taken == own || byteCount <= limit - taken else { return false }
      taken += byteCount
      return true
    }
  }

  fileprivate func giveBack(_ byteCount: Int64) { taken.withLock { $0 -= byteCount } }
}

/// What one request has taken of a budget. It is given back with the last use of this.
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

  /// - Throws: 503 beyond the limit.
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
