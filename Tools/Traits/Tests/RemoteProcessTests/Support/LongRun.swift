import Foundation

/// What need not be seen with each change, because it takes minutes.
enum LongRun {
  static let isWanted = ProcessInfo.processInfo.environment["BLOBCACHE_LONG_REMOTE"] != nil
  static let advice = "Tools/test --long remote runs it"
}
