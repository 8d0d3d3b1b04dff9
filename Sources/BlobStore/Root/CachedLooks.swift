internal import Posix
internal import Synchronization

/// Remembers for a while that a directory's file system cannot look without waiting, such as tmpfs.
struct CachedLooks: ~Copyable, Sendable {
  /// A try costs a load some microseconds; a kernel or a mount changes seldom.
  static let pauseMilliseconds: Int64 = 10_000

  /// 0 before the first refusal.
  private let resumption = Atomic<Int64>(0)

  /// - Parameter now: of `Files.moment`, which is not read as long as nothing was refused.
  func areWorthTrying(at now: @autoclosure () -> Int64) -> Bool {
    let resumption = resumption.load(ordering: .relaxed)
    return resumption == 0 || now() >= resumption
  }

  func wereRefused(at now: Int64) {
    resumption.store(now + Self.pauseMilliseconds, ordering: .relaxed)
  }
}
