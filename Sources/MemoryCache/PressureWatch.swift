internal import Locks
package import PosixFiles

#if canImport(Darwin)
  internal import Dispatch
#else
  internal import SystemPackage
#endif

/// Where a watch finds the system's files.
package struct PressureEnvironment: Sendable {
  let root: String
  let files: Files
  /// How often the control group's use is looked at.
  let period: Duration

  package init(root: String, files: Files, period: Duration) {
    self.root = root
    self.files = files
    self.period = period
  }

  package static var system: PressureEnvironment {
    PressureEnvironment(root: "/", files: Files(), period: .seconds(1))
  }
}

#if canImport(Darwin)
  /// Watches by the system's own source.
  package final class PressureWatch: Sendable {
    package let sources = [MemoryPressureSource(kind: .system, path: "", failure: nil)]
    private let source: Lock<(any DispatchSourceMemoryPressure)?>

    package init(environment: PressureEnvironment, report: @escaping @Sendable (MemoryPressure) -> Void) {
      let made = DispatchSource.makeMemoryPressureSource(
        eventMask: [.warning, .critical], queue: DispatchQueue.global(qos: .utility))
      made.setEventHandler { [weak made] in
        guard let event = made?.data else { return }
        report(event.contains(.critical) ? .critical : .warning)
      }
      made.activate()
      source = Lock(made)
    }

    package func stop() {
      source.withLock { source in
        source?.cancel()
        source = nil
      }
    }
  }
#else
  /// Watches on a thread of its own, until it is stopped.
  package final class PressureWatch: Sendable {
    /// Stalls of a tenth of two seconds, the window that a process without privileges may ask for: of some tasks, as
    /// systemd's MemoryPressureThresholdSec= has it (systemd.resource-control(5)), and of all at once.
    private static let triggers: [(level: MemoryPressure, text: String)] = [
      (.warning, "some 200000 2000000\n"), (.critical, "full 200000 2000000\n"),
    ]

    private struct Trigger: Sendable {
      let level: MemoryPressure
      let file: WatchedFile
    }

    private let found = Lock<[MemoryPressureSource]>([])
    /// nil where nothing can be watched.
    private let wait: EventWait?

    package init(environment: PressureEnvironment, report: @escaping @Sendable (MemoryPressure) -> Void) {
      let files = environment.files
      var sources: [MemoryPressureSource] = []
      let root = FilePath(environment.root)
      let group = Self.find(.limit, root.appending("sys/fs/cgroup"), &sources) { () throws(FileError) in
        try ControlGroup(root: root, files: files)
      }
      var triggers: [Trigger] = []
      for place in [group?.stallFile, root.appending("proc/pressure/memory")].compactMap(\.self)
      where triggers.isEmpty {
        for (level, text) in Self.triggers {
          let file = Self.find(.stall, place, &sources) { () throws(FileError) in
            try files.watchedFile(at: place, writing: text)
          }
          if let file { triggers.append(Trigger(level: level, file: file)) }
        }
      }
      guard !triggers.isEmpty || group != nil else {
        wait = nil
        found.withLock { $0 = sources }
        return
      }
      wait = Self.start(
        Loop(triggers: triggers, group: group, environment: environment, report: report), &sources)
      found.withLock { $0 = sources }
    }

    package var sources: [MemoryPressureSource] { found.withLock { $0 } }

    package func stop() { wait?.stop() }

    /// Looks for a source, and notes whether it is there.
    private static func find<Found: Sendable>(
      _ kind: MemoryPressureSource.Kind, _ path: FilePath, _ sources: inout [MemoryPressureSource],
      _ body: () throws(FileError) -> Found?
    ) -> Found? {
      do throws(FileError) {
        guard let found = try body() else { return nil }
        let source = MemoryPressureSource(kind: kind, path: path.string, failure: nil)
        if !sources.contains(source) { sources.append(source) }
        return found
      } catch {
        sources.append(MemoryPressureSource(kind: kind, path: path.string, failure: error.description))
        return nil
      }
    }

    private static func start(_ loop: Loop, _ sources: inout [MemoryPressureSource]) -> EventWait? {
      do {
        let wait = try EventWait(files: loop.environment.files)
        try OwnedThread {
          var loop = loop
          loop.run(wait)
        }
        return wait
      } catch {
        // Without a thread nothing is watched.
        sources = sources.map { MemoryPressureSource(kind: $0.kind, path: $0.path, failure: "\(error)") }
        return nil
      }
    }

    /// What the thread does.
    private struct Loop: Sendable {
      var triggers: [Trigger]
      var group: ControlGroup?
      let environment: PressureEnvironment
      let report: @Sendable (MemoryPressure) -> Void
      private var detector = PressureDetector()
      private var hasLimit = true

      init(
        triggers: [Trigger], group: ControlGroup?, environment: PressureEnvironment,
        report: @escaping @Sendable (MemoryPressure) -> Void
      ) {
        self.triggers = triggers
        self.group = group
        self.environment = environment
        self.report = report
      }

      mutating func run(_ wait: EventWait) {
        while group != nil || !triggers.isEmpty {
          var stalled: MemoryPressure?
          // A poll fails only for want of kernel memory, or of room for descriptors; trying again would not end.
          guard let outcome = try? wait.next(of: triggers.map(\.file), timeoutMilliseconds: timeout) else { return }
          switch outcome {
          case .stopped: return
          case .events(let fired, let gone):
            stalled = fired.map { triggers[$0].level }.max()
            // Their control group was removed.
            for position in gone.reversed() { triggers.remove(at: position) }
          case .timeout: break
          }
          let now = CacheInstant.systemNanoseconds()
          let usedShare = usedShare()
          hasLimit = usedShare != nil
          if let pressure = detector.observe(stalled: stalled, usedShare: usedShare, now: now) { report(pressure) }
        }
      }

      /// A group without a limit is looked at seldom: it may be given one.
      private var timeout: CInt? {
        guard group != nil else { return nil }
        let milliseconds = max(environment.period.saturatedNanoseconds / 1_000_000, 1)
        return CInt(clamping: hasLimit ? milliseconds : min(milliseconds, 1 << 20) * 60)
      }

      /// nil, and no more of it, where the group can no longer be read.
      private mutating func usedShare() -> Double? {
        guard let group else { return nil }
        do throws(FileError) {
          return try group.usedShare()
        } catch {
          self.group = nil
          return nil
        }
      }
    }
  }
#endif
