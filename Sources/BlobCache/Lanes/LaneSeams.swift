/// The moments between which threads of a lane may come in each other's way, for tests to hold them there.
package struct LaneSeams: Sendable {
  /// An idle thread was taken out of the idle ones, and is about to be given its job.
  package var willGive: @Sendable () -> Void
  /// A thread has been idle for as long as it may, and is about to look whether it was taken meanwhile.
  package var timeIsUp: @Sendable () -> Void

  package init(willGive: @escaping @Sendable () -> Void = {}, timeIsUp: @escaping @Sendable () -> Void = {}) {
    self.willGive = willGive
    self.timeIsUp = timeIsUp
  }
}
