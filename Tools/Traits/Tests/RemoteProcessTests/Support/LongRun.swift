import Foundation

/// Tests that do not run with each change, because they take minutes.
enum LongRun {
  static let isWanted = ProcessInfo.processInfo.environment["BLOBCACHE_LONG_REMOTE"] != nil
  static let advice = "Tools/test --long remote runs it"
}
