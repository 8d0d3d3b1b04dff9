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
