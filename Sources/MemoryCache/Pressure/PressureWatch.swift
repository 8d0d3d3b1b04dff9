internal import Locks
package import Posix

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

    /// - Parameters:
    ///   - report: called at each sign of pressure.
    ///   - onFailure: never called: this system does not refuse.
    package init(
      environment: PressureEnvironment, report: @escaping @Sendable (MemoryPressure) -> Void,
      onFailure: @escaping @Sendable () -> Void
    ) {
      let made = DispatchSource.makeMemoryPressureSource(
        eventMask: [.warning, .critical], queue: DispatchQueue.global(qos: .utility))
      made.setEventHandler { [weak made] in
        guard let event = made?.data else { return }
        report(event.contains(.critical) ? .critical : .warning)
      }
      made.activate()
      source = Lock(made)
    }

    /// There are no control groups.
    package func currentPressure() -> MemoryPressure? { nil }

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
    /// Stalls of a tenth of two seconds: of some tasks, and of all at once.
    ///
    /// Two seconds is the window that a process without privileges may ask for. systemd's MemoryPressureThresholdSec=
    /// has these values (systemd.resource-control(5)).
    private static let triggers: [(level: MemoryPressure, text: String)] = [
      (.warning, "some 200000 2000000\n"), (.critical, "full 200000 2000000\n"),
    ]

    private struct Trigger: Sendable {
      let level: MemoryPressure
      let file: WatchedFile
    }

    private let found = PressureSources()
    private let group: ControlGroup?
    private let groupPath: FilePath
    private let onFailure: @Sendable () -> Void
    /// nil where nothing can be watched.
    private let wait: EventWait?

    /// - Parameters:
    ///   - report: called at each sign of pressure.
    ///   - onFailure: called when `sources` has a failure that it did not have when this was made.
    package init(
      environment: PressureEnvironment, report: @escaping @Sendable (MemoryPressure) -> Void,
      onFailure: @escaping @Sendable () -> Void
    ) {
      let files = environment.files
      let root = FilePath(environment.root)
      self.onFailure = onFailure
      groupPath = root.appending("sys/fs/cgroup")
      group = Self.find(.limit, groupPath, found) { () throws(FileError) in
        try ControlGroup(root: root, files: files)
      }
      var triggers: [Trigger] = []
      if let place = Self.stallFile(of: group, root: root) {
        for (level, text) in Self.triggers {
          let file = Self.find(.stall, place, found) { () throws(FileError) in
            try files.watchedFile(at: place, writing: text)
          }
          if let file { triggers.append(Trigger(level: level, file: file)) }
        }
      }
      guard !triggers.isEmpty || group != nil else {
        wait = nil
        return
      }
      wait = Self.start(
        Loop(
          triggers: triggers, group: group, groupPath: groupPath, environment: environment, sources: found,
          report: report, onFailure: onFailure))
    }

    package var sources: [MemoryPressureSource] { found.all }

    package func stop() { wait?.stop() }

    /// How short of memory the control group is at this moment; nil without a limit.
    package func currentPressure() -> MemoryPressure? {
      guard let group else { return nil }
      do throws(FileError) {
        return try group.usedShare().flatMap(PressureDetector.level)
      } catch {
        found.fail(.limit, at: groupPath.string, because: error)
        onFailure()
        return nil
      }
    }

    /// The file that tells of stalls: the group's own, or the machine's without a group.
    ///
    /// Stalls of other groups say nothing about this one. A group of version 1 has no such file. Without a limit it has
    /// all the machine's memory, as if there were no group.
    private static func stallFile(of group: ControlGroup?, root: FilePath) -> FilePath? {
      let ofMachine = root.appending("proc/pressure/memory")
      guard let group else { return ofMachine }
      if group.version == .v2 { return group.stallFile }
      // A limit that cannot be read here cannot be read by the watch either, which says so.
      return (try? group.tightestLimit()) == nil ? ofMachine : nil
    }

    /// Looks for a source, and notes whether it is there.
    private static func find<Found: Sendable>(
      _ kind: MemoryPressureSource.Kind, _ path: FilePath, _ sources: PressureSources,
      _ body: () throws(FileError) -> Found?
    ) -> Found? {
      do throws(FileError) {
        guard let found = try body() else { return nil }
        sources.note(kind, at: path.string)
        return found
      } catch {
        sources.fail(kind, at: path.string, because: error)
        return nil
      }
    }

    private static func start(_ loop: Loop) -> EventWait? {
      do {
        let wait = try EventWait(files: loop.environment.files)
        try OwnedThread {
          var loop = loop
          loop.run(wait)
        }
        return wait
      } catch {
        // Without a thread nothing is watched.
        loop.sources.failAll(because: error)
        return nil
      }
    }

    /// The work of the thread.
    private struct Loop: Sendable {
      var triggers: [Trigger]
      var group: ControlGroup?
      let groupPath: FilePath
      let environment: PressureEnvironment
      let sources: PressureSources
      let report: @Sendable (MemoryPressure) -> Void
      let onFailure: @Sendable () -> Void
      private var detector = PressureDetector()
      private var hasLimit = true

      init(
        triggers: [Trigger], group: ControlGroup?, groupPath: FilePath, environment: PressureEnvironment,
        sources: PressureSources, report: @escaping @Sendable (MemoryPressure) -> Void,
        onFailure: @escaping @Sendable () -> Void
      ) {
        self.triggers = triggers
        self.group = group
        self.groupPath = groupPath
        self.environment = environment
        self.sources = sources
        self.report = report
        self.onFailure = onFailure
      }

      mutating func run(_ wait: EventWait) {
        while group != nil || !triggers.isEmpty {
          var stalled: MemoryPressure?
          let outcome: EventWait.Outcome
          do throws(FileError) {
            outcome = try wait.next(of: triggers.map(\.file), timeoutMilliseconds: timeout)
          } catch {
            // For want of kernel memory, or of room for descriptors; trying again would not end.
            sources.failAll(because: error)
            return onFailure()
          }
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
          sources.fail(.limit, at: groupPath.string, because: error)
          onFailure()
          return nil
        }
      }
    }
  }
#endif
