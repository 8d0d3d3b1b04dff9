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
