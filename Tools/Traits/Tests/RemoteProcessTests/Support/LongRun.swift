import Foundation

/// Tests that go by how a busy server of other people behaves: they have failed under load, and are not part of each run.
enum LongRun {
  static let isWanted = ProcessInfo.processInfo.environment["BLOBCACHE_LONG_REMOTE"] != nil
}
