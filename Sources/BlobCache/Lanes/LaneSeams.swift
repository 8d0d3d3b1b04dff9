/// The moments at which threads of a lane may meet, where tests hold them.
package struct LaneSeams: Sendable {
  /// An idle thread was chosen, and is about to get its job.
  package var willGive: @Sendable () -> Void
  /// A thread's idle time is over, and it is about to look if it was chosen meanwhile.
  package var timeIsUp: @Sendable () -> Void

  package init(willGive: @escaping @Sendable () -> Void = {}, timeIsUp: @escaping @Sendable () -> Void = {}) {
    self.willGive = willGive
    self.timeIsUp = timeIsUp
  }
}
