internal import Locks
internal import Posix

/// Tells caches, and other code with memory to give back, when memory becomes scarce.
///
/// On Apple's platforms a dispatch source says so. On Linux one thread waits for the kernel's pressure stall
/// information, and looks once a second at the use of the control group's limit. `sources` says what is watched.
///
/// A program that knows better calls `MemoryCache.respond(to:)`. Without subscriptions there is no thread.
public final class MemoryPressureMonitor: Sendable {
  /// The monitor that caches use.
  public static let shared = MemoryPressureMonitor()

  private struct State {
    var handlers: [UInt64: @Sendable (MemoryPressure) -> Void] = [:]
    var failureHandlers: [UInt64: @Sendable (MemoryPressureSource) -> Void] = [:]
    var lastHandler: UInt64 = 0
    var watch: PressureWatch?
    var toldFailures: Set<MemoryPressureSource> = []
  }

  private let state = Lock(State())
  private let environment: PressureEnvironment

  public convenience init() {
    self.init(environment: .system)
  }

  package init(environment: PressureEnvironment) {
    self.environment = environment
  }

  /// Calls the handler at each sign of pressure, as long as the subscription lives.
  ///
  /// The call comes on a thread of the monitor's. A level is told when it is reached, and again after ten seconds if it
  /// lasts.
  ///
  /// - Parameters:
  ///   - handler: receives the level.
  ///   - onFailure: called with each place that cannot be watched. Each is told once in the monitor's life, to one
  ///     subscription.
  public func onPressure(
    _ handler: @escaping @Sendable (MemoryPressure) -> Void,
    onFailure: (@Sendable (MemoryPressureSource) -> Void)? = nil
  ) -> MemoryPressureSubscription {
    let number = state.withLock { state in
      state.lastHandler += 1
      state.handlers[state.lastHandler] = handler
      state.failureHandlers[state.lastHandler] = onFailure
      if state.watch == nil {
        state.watch = PressureWatch(
          environment: environment, report: { [weak self] in self?.tell($0) },
          onFailure: { [weak self] in self?.tellFailures() })
      }
      return state.lastHandler
    }
    tellFailures()
    return MemoryPressureSubscription { [self] in forget(number) }
  }

  /// How short of memory the control group is now; nil where it has enough.
  ///
  /// It is also nil without a limit, and where nothing is watched.
  package func currentPressure() -> MemoryPressure? { state.withLock { $0.watch }?.currentPressure() }

  /// The sources that are watched, and those that could not be.
  public var sources: [MemoryPressureSource] { state.withLock { $0.watch }?.sources ?? [] }

  private func forget(_ number: UInt64) {
    let (handlers, watch) = state.withLock { state in
      let handlers = (state.handlers.removeValue(forKey: number), state.failureHandlers.removeValue(forKey: number))
      guard state.handlers.isEmpty else { return (handlers, nil as PressureWatch?) }
      defer { state.watch = nil }
      return (handlers, state.watch)
    }
    watch?.stop()
    withExtendedLifetime(handlers) {}  // released outside the lock
  }

  private func tell(_ pressure: MemoryPressure) {
    let handlers = state.withLock { $0.handlers.values.map(\.self) }
    for handler in handlers { handler(pressure) }
  }

  /// Tells what was not told before, if there is a subscription that wants to know.
  private func tellFailures() {
    let (handler, failures) = state.withLock { state in
      guard let handler = state.failureHandlers.values.first else {
        return (nil as (@Sendable (MemoryPressureSource) -> Void)?, [] as [MemoryPressureSource])
      }
      let failures = (state.watch?.sources ?? []).filter { $0.failure != nil }
      return (handler, failures.filter { state.toldFailures.insert($0).inserted })
    }
    for failure in failures { handler?(failure) }
  }
}

/// How scarce memory is.
public enum MemoryPressure: Int, Comparable, CaseIterable, Sendable {
  /// Worth giving some back.
  case warning = 1
  /// The system is about to end processes.
  case critical = 2

  public static func < (a: MemoryPressure, b: MemoryPressure) -> Bool { a.rawValue < b.rawValue }
}

/// A subscription to memory pressure; it ends with the last reference to it.
public final class MemoryPressureSubscription: Sendable {
  private let onEnd: @Sendable () -> Void

  init(onEnd: @escaping @Sendable () -> Void) { self.onEnd = onEnd }

  deinit { onEnd() }
}

/// One place where a `MemoryPressureMonitor` looks.
public struct MemoryPressureSource: Hashable, Sendable {
  public enum Kind: String, Sendable {
    /// Apple's dispatch source.
    case system
    /// The kernel's pressure stall information.
    case stall
    /// The limit of the control group.
    case limit
  }

  public let kind: Kind
  /// A file or directory; empty if the source has none.
  public let path: String
  /// Why it is not watched, as the system says; nil if it is.
  public let failure: String?
}

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
