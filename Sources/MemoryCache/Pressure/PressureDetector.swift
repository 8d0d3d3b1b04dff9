/// Decides which signs of memory pressure are told.
///
/// A level is told when it is reached, and again while it lasts. But each answer gets time to help before the next
/// sign.
package struct PressureDetector: Sendable {
  /// How long a level is not told again, in nanoseconds. Pressure that lasts deserves another answer.
  package static let repeatInterval: Int64 = 10_000_000_000
  /// The shares of its limit from which on a control group is short of memory.
  ///
  /// Memory that the kernel can drop at once does not count.
  package static let (warningShare, criticalShare) = (0.85, 0.95)

  private var told: (level: MemoryPressure, time: Int64)?

  package init() {}

  /// - Parameters:
  ///   - stalled: the highest level whose trigger has fired.
  ///   - usedShare: what share of its control group's limit the process's group uses; nil without a limit.
  ///   - now: nanoseconds of a clock that goes forward.
  /// - Returns: what to tell; nil for nothing new.
  package mutating func observe(stalled: MemoryPressure?, usedShare: Double?, now: Int64) -> MemoryPressure? {
    guard let level = [stalled, usedShare.flatMap(Self.level)].compactMap(\.self).max() else { return nil }
    if let told, level <= told.level, now &- told.time < Self.repeatInterval { return nil }
    told = (level, now)
    return level
  }

  /// The level for a use of this share of the limit; nil for enough memory.
  package static func level(usedShare share: Double) -> MemoryPressure? {
    share >= criticalShare ? .critical : share >= warningShare ? .warning : nil
  }
}
