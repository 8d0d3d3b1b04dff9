internal import Foundation

extension SeededGenerator {
  /// The seed of a random test, from this process's environment.
  public static func announcedSeed(for test: String) -> UInt64 {
    announcedSeed(for: test, environment: ProcessInfo.processInfo.environment)
  }
}
