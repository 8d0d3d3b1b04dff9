internal import Locks
internal import Posix

/// Notifies caches, and other code that can free memory, when memory becomes scarce.
///
/// On Apple platforms, a dispatch source reports the pressure. On Linux, a thread waits for the kernel's pressure
/// stall information (PSI), and compares the control group's usage with its limit once a second. `sources` lists the
/// watched sources. Without subscriptions, no thread runs.
///
/// A program with better information can call `MemoryCache.respond(to:)`.
public final class MemoryPressureMonitor: Sendable {
  /// The shared monitor, which caches use.
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

  /// Calls the handler for each pressure event while the subscription exists, on a thread of the monitor.
  ///
  /// A level is reported when it is reached, and again after ten seconds if it persists.
  ///
  /// - Parameters:
  ///   - handler: A closure that receives the level.
  ///   - onFailure: A closure that receives each source that cannot be watched, once per monitor.
  /// - Returns: The subscription, which ends with its last reference.
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

  /// Returns the current pressure of the control group, or `nil` for enough memory, no limit or no watch.
  package func currentPressure() -> MemoryPressure? { state.withLock { $0.watch }?.currentPressure() }

  /// The sources that are watched, and those that cannot be watched.
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

/// The level of memory pressure.
public enum MemoryPressure: Int, Comparable, CaseIterable, Sendable {
  /// Memory is scarce, and some should be freed.
  case warning = 1
  /// The system is about to terminate processes.
  case critical = 2

  public static func < (a: MemoryPressure, b: MemoryPressure) -> Bool { a.rawValue < b.rawValue }
}

/// A subscription to memory pressure, which ends with the last reference to it.
public final class MemoryPressureSubscription: Sendable {
  private let onEnd: @Sendable () -> Void

  init(onEnd: @escaping @Sendable () -> Void) { self.onEnd = onEnd }

  deinit { onEnd() }
}

/// A source of memory pressure that a `MemoryPressureMonitor` uses.
public struct MemoryPressureSource: Hashable, Sendable {
  public enum Kind: String, Sendable {
    /// The dispatch source of Apple platforms.
    case system
    /// The kernel's pressure stall information.
    case stall
    /// The limit of the control group.
    case limit
  }

  public let kind: Kind
  /// The path of a file or directory, or an empty string.
  public let path: String
  /// The system's error if the source cannot be watched, otherwise `nil`.
  public let failure: String?
}

/// Decides which pressure events are reported, so that each response has time to take effect.
package struct PressureDetector: Sendable {
  /// The interval at which a level that persists is reported again, in nanoseconds.
  package static let repeatInterval: Int64 = 10_000_000_000
  /// The shares of a control group's limit above which memory is scarce, not counting the page cache.
  package static let (warningShare, criticalShare) = (0.85, 0.95)

  private var told: (level: MemoryPressure, time: Int64)?

  package init() {}

  /// - Returns: The level to report, or `nil`.
  package mutating func observe(stalled: MemoryPressure?, usedShare: Double?, now: Int64) -> MemoryPressure? {
    guard let level = [stalled, usedShare.flatMap(Self.level)].compactMap(\.self).max() else { return nil }
    if let told, level <= told.level, now &- told.time < Self.repeatInterval { return nil }
    told = (level, now)
    return level
  }

  package static func level(usedShare share: Double) -> MemoryPressure? {
    share >= criticalShare ? .critical : share >= warningShare ? .warning : nil
  }
}
