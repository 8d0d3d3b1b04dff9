internal import Locks
internal import PosixFiles

/// Tells when memory becomes scarce, for caches and whoever else can give some back.
///
/// On Apple's platforms the system says so: a dispatch source of memory pressure. On Linux one thread waits for the
/// kernel's pressure stall information, that of the process's control group where it has one, else the machine's; and
/// looks once a second at how much of its control group's limit is in use. What a system lacks, or refuses to the
/// process, is left out: `sources` says what is watched. A program that knows better calls `MemoryCache.respond(to:)`.
///
/// Nothing is watched, and there is no thread, while nobody wants to be told.
public final class MemoryPressureMonitor: Sendable {
  /// The monitor that caches use.
  public static let shared = MemoryPressureMonitor()

  private struct State {
    var handlers: [UInt64: @Sendable (MemoryPressure) -> Void] = [:]
    var lastHandler: UInt64 = 0
    var watch: PressureWatch?
  }

  private let state = Lock(State())
  private let makeWatch: @Sendable (@escaping @Sendable (MemoryPressure) -> Void) -> PressureWatch

  public convenience init() {
    self.init { PressureWatch(environment: .system, report: $0) }
  }

  package init(
    watching makeWatch: @escaping @Sendable (@escaping @Sendable (MemoryPressure) -> Void) -> PressureWatch
  ) {
    self.makeWatch = makeWatch
  }

  /// Calls the handler at each sign of pressure, on a thread of the monitor's, as long as the subscription lives.
  ///
  /// A level is told when it is reached, and again after ten seconds if it lasts.
  public func onPressure(_ handler: @escaping @Sendable (MemoryPressure) -> Void) -> MemoryPressureSubscription {
    let number = state.withLock { state in
      state.lastHandler += 1
      state.handlers[state.lastHandler] = handler
      if state.watch == nil { state.watch = makeWatch { [weak self] in self?.tell($0) } }
      return state.lastHandler
    }
    return MemoryPressureSubscription { [self] in forget(number) }
  }

  /// What is watched, and what could not be.
  public var sources: [MemoryPressureSource] { state.withLock { $0.watch }?.sources ?? [] }

  private func forget(_ number: UInt64) {
    let (handler, watch) = state.withLock { state in
      let handler = state.handlers.removeValue(forKey: number)
      guard state.handlers.isEmpty else { return (handler, nil as PressureWatch?) }
      defer { state.watch = nil }
      return (handler, state.watch)
    }
    watch?.stop()
    withExtendedLifetime(handler) {}  // released outside the lock
  }

  private func tell(_ pressure: MemoryPressure) {
    let handlers = state.withLock { $0.handlers.values.map(\.self) }
    for handler in handlers { handler(pressure) }
  }
}

/// The wish to be told of memory pressure; it ends with the last reference to this.
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
  /// A file or directory; empty where there is none.
  public let path: String
  /// Why it is not watched, as the system says; nil if it is.
  public let failure: String?
}
