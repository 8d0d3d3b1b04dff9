import Foundation

/// The share of a test that is run.
///
/// `BLOBCACHE_TEST_LONG=1` runs the long form, `BLOBCACHE_TEST_LONG=1/50` a fiftieth of it.
enum TestLength {
  private static let part: Int? = {
    guard let value = ProcessInfo.processInfo.environment["BLOBCACHE_TEST_LONG"] else { return nil }
    if value == "1" { return 1 }
    return value.hasPrefix("1/") ? Int(value.dropFirst(2)).flatMap { $0 > 0 ? $0 : nil } : nil
  }()

  static var isShort: Bool { part == nil }

  static func count(short: Int, long: Int) -> Int {
    part.map { max(long / $0, 1) } ?? short
  }
}
