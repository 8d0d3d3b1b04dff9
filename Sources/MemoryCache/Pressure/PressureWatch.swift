internal import Locks
package import Posix
package import SystemPackage

#if canImport(Darwin)
  internal import Dispatch
#endif

/// The environment of a watch, which tests replace.
package struct PressureEnvironment: Sendable {
  let root: String
  let files: Files
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
  package final class PressureWatch: Sendable {
    package let sources = [MemoryPressureSource(kind: .system, path: "", failure: nil)]
    private let source: Lock<(any DispatchSourceMemoryPressure)?>

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

    /// Always `nil`, because Darwin has no control groups.
    package func currentPressure() -> MemoryPressure? { nil }

    package func stop() {
      source.withLock { source in
        source?.cancel()
        source = nil
      }
    }
  }
#else
  package final class PressureWatch: Sendable {
    /// Triggers for stalls of 10 % of two seconds: of some tasks, and of all tasks.
    ///
    /// Two seconds is the window that an unprivileged process may request. systemd's MemoryPressureThresholdSec= has
    /// these values (systemd.resource-control(5)).
    private static let triggers: [(level: MemoryPressure, text: String)] = [
      (.warning, "some 200000 2000000\n"), (.critical, "full 200000 2000000\n"),
    ]

    private let environment: PressureEnvironment
    private let report: @Sendable (MemoryPressure) -> Void
    private let onFailure: @Sendable () -> Void
    private let found = PressureSources()
    private let group: ControlGroup?
    private let groupPath: FilePath
    private let wait: EventWait?

    /// - Parameter onFailure: A closure that is called when a source fails after the initialization.
    package init(
      environment: PressureEnvironment, report: @escaping @Sendable (MemoryPressure) -> Void,
      onFailure: @escaping @Sendable () -> Void
    ) {
      let (files, root, found) = (environment.files, FilePath(environment.root), found)
      self.environment = environment
      self.report = report
      self.onFailure = onFailure
      groupPath = root.appending("sys/fs/cgroup")
      let group = found.find(.limit, groupPath) { () throws(FileError) in try ControlGroup(root: root, files: files) }
      self.group = group
      var triggers: [(level: MemoryPressure, file: WatchedFile)] = []
      if let place = Self.stallFile(of: group, root: root) {
        for (level, text) in Self.triggers {
          let file = found.find(.stall, place) { () throws(FileError) in
            try files.watchedFile(at: place, writing: text)
          }
          if let file { triggers.append((level, file)) }
        }
      }
      guard !triggers.isEmpty || group != nil else {
        wait = nil
        return
      }
      do throws(FileError) {
        wait = try EventWait(files: files)
      } catch {
        wait = nil
        found.failAll(because: error)
      }
      guard let wait else { return }
      do {
        try OwnedThread { [triggers] in self.run(wait, triggers) }
      } catch {
        // Without a thread, no source is watched.
        found.failAll(because: error)
      }
    }

    package var sources: [MemoryPressureSource] { found.all }

    package func stop() { wait?.stop() }

    /// Returns the current pressure of the control group, or `nil` without pressure or without a limit.
    package func currentPressure() -> MemoryPressure? {
      var group = group
      return usedShare(of: &group).flatMap(PressureDetector.level)
    }

    /// Returns the file with the stall information: the control group's file, or the machine's file without a group.
    ///
    /// Stalls of other groups are irrelevant to this one. A group of version 1 has no such file. Without a limit, it
    /// can use all memory of the machine, so the machine's file is used.
    private static func stallFile(of group: ControlGroup?, root: FilePath) -> FilePath? {
      let ofMachine = root.appending("proc/pressure/memory")
      guard let group else { return ofMachine }
      if group.version == .v2 { return group.stallFile }
      // If the limit cannot be read here, the watch cannot read it either, and reports the error.
      return (try? group.tightestLimit()) == nil ? ofMachine : nil
    }

    private func run(_ wait: EventWait, _ triggers: [(level: MemoryPressure, file: WatchedFile)]) {
      var (triggers, group, hasLimit, detector) = (triggers, group, true, PressureDetector())
      while group != nil || !triggers.isEmpty {
        var stalled: MemoryPressure?
        do throws(FileError) {
          let timeout = group == nil ? nil : timeout(hasLimit: hasLimit)
          switch try wait.next(of: triggers.map(\.file), timeoutMilliseconds: timeout) {
          case .stopped: return
          case .events(let fired, let gone):
            stalled = fired.map { triggers[$0].level }.max()
            // The control group of these files was removed.
            for position in gone.reversed() { triggers.remove(at: position) }
          case .timeout: break
          }
        } catch {
          // The kernel lacks memory or descriptors, so a retry could loop forever.
          found.failAll(because: error)
          return onFailure()
        }
        let now = CacheInstant.systemNanoseconds()
        let usedShare = usedShare(of: &group)
        hasLimit = usedShare != nil
        if let pressure = detector.observe(stalled: stalled, usedShare: usedShare, now: now) { report(pressure) }
      }
    }

    /// A group without a limit is checked rarely, because it may get one later.
    private func timeout(hasLimit: Bool) -> CInt {
      let milliseconds = max(environment.period.saturatedNanoseconds / 1_000_000, 1)
      return CInt(clamping: hasLimit ? milliseconds : min(milliseconds, 1 << 20) * 60)
    }

    /// Returns the used share of the limit; if the group can no longer be read, drops it and returns `nil`.
    private func usedShare(of group: inout ControlGroup?) -> Double? {
      do throws(FileError) {
        return try group?.usedShare()
      } catch {
        group = nil
        found.note(.limit, at: groupPath.string, failure: error)
        onFailure()
        return nil
      }
    }
  }

  private final class PressureSources: Sendable {
    private let list = Lock<[MemoryPressureSource]>([])

    var all: [MemoryPressureSource] { list.withLock { $0 } }

    func find<Found: Sendable>(
      _ kind: MemoryPressureSource.Kind, _ path: FilePath, _ body: () throws(FileError) -> Found?
    ) -> Found? {
      do throws(FileError) {
        guard let found = try body() else { return nil }
        note(kind, at: path.string, failure: nil)
        return found
      } catch {
        note(kind, at: path.string, failure: error)
        return nil
      }
    }

    func note(_ kind: MemoryPressureSource.Kind, at path: String, failure: (any Error)?) {
      let source = MemoryPressureSource(kind: kind, path: path, failure: failure.map { "\($0)" })
      list.withLock { list in
        list.removeAll { $0.kind == kind && $0.path == path && ($0.failure == nil || $0 == source) }
        list.append(source)
      }
    }

    func failAll(because error: any Error) {
      for source in all where source.failure == nil { note(source.kind, at: source.path, failure: error) }
    }
  }
#endif

/// The memory of this process's control group and its ancestors.
///
/// Source: the kernel's Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst; cgroups(7).
package struct ControlGroup: Sendable {
  package enum Version: Sendable { case v1, v2 }

  package let version: Version
  /// The directory of the process's group, followed by ancestors that can have a limit.
  package let directories: [FilePath]
  private let files: Files

  /// Finds the group of this process, or returns `nil` if no control group has a memory controller.
  package init?(root: FilePath, files: Files) throws(FileError) {
    guard let membership = try files.text(of: root.appending("proc/self/cgroup")) else { return nil }
    self.files = files
    let mounts = root.appending("sys/fs/cgroup")
    for line in membership.split(separator: "\n") {
      // hierarchy:controllers:path
      let fields = line.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
      guard fields.count == 3 else { continue }
      let isUnified = fields[0] == "0" && fields[1].isEmpty
      guard isUnified || fields[1].split(separator: ",").contains("memory") else { continue }
      // If both versions are mounted, the second has its own directory.
      for mount in isUnified ? [mounts, mounts.appending("unified")] : [mounts.appending("memory")] {
        let found = try Self.directories(
          below: mount, String(fields[2]), with: Self.usageName(isUnified ? .v2 : .v1), files)
        guard !found.isEmpty else { continue }
        version = isUnified ? .v2 : .v1
        directories = found
        return
      }
    }
    return nil
  }

  private static func usageName(_ version: Version) -> String {
    version == .v2 ? "memory.current" : "memory.usage_in_bytes"
  }

  /// Returns the directories of the group and its ancestors that contain a file with this name.
  ///
  /// In a container, the path may be one of the host, while the container's group is mounted at the root.
  private static func directories(
    below mount: FilePath, _ path: String, with name: String, _ files: Files
  ) throws(FileError) -> [FilePath] {
    var components = FilePath(path).components.filter { $0.kind == .regular }
    var found: [FilePath] = []
    while true {
      let directory = mount.appending(components)
      if try files.text(of: directory.appending(name)) != nil { found.append(directory) }
      if components.isEmpty { return found }
      components.removeLast()
    }
  }

  /// The file with the group's pressure stall information, or `nil` with version 1, which lacks it.
  package var stallFile: FilePath? { version == .v2 ? directories.first?.appending("memory.pressure") : nil }

  /// Returns the used share of the tightest limit without the page cache, which the kernel reclaims first, or `nil`.
  package func usedShare() throws(FileError) -> Double? {
    var greatest: Double?
    for directory in directories {
      guard let limit = try limit(of: directory), let usage = try number(in: directory, Self.usageName(version)) else {
        continue
      }
      let used = Double(max(usage - (try pageCache(of: directory)), 0))
      greatest = max(greatest ?? 0, used / Double(limit))
    }
    return greatest
  }

  /// Returns the lowest limit of all groups in bytes, or `nil` if no group has a limit.
  package func tightestLimit() throws(FileError) -> Int64? {
    var least: Int64?
    for directory in directories {
      guard let limit = try limit(of: directory) else { continue }
      least = min(least ?? limit, limit)
    }
    return least
  }

  /// Returns the lowest limit at which the kernel throttles or terminates processes.
  ///
  /// With version 1, the kernel also includes the limits of ancestors that are not visible in a container.
  private func limit(of directory: FilePath) throws(FileError) -> Int64? {
    var limits: [Int64?] = []
    switch version {
    case .v1:
      limits.append(try number(in: directory, "memory.limit_in_bytes"))
      limits.append(try statistics(of: directory)["hierarchical_memory_limit"])
    case .v2:
      for name in ["memory.max", "memory.high"] { limits.append(try number(in: directory, name)) }
    }
    // "max", or a number near 2^63 in version 1, means no limit.
    return limits.compactMap(\.self).filter { $0 < 1 << 62 }.min().flatMap { $0 > 0 ? $0 : nil }
  }

  private func pageCache(of directory: FilePath) throws(FileError) -> Int64 {
    let prefix = version == .v2 ? "" : "total_"
    let statistics = try statistics(of: directory)
    return ["inactive_file", "active_file"].reduce(0) { sum, name in
      sum + min(statistics[prefix + name] ?? 0, 1 << 60)
    }
  }

  private func statistics(of directory: FilePath) throws(FileError) -> [Substring: Int64] {
    var statistics: [Substring: Int64] = [:]
    for line in try files.text(of: directory.appending("memory.stat"))?.split(separator: "\n") ?? [] {
      let fields = line.split(separator: " ")
      guard fields.count == 2, let number = Int64(fields[1]) else { continue }
      statistics[fields[0]] = max(number, 0)
    }
    return statistics
  }

  private func number(in directory: FilePath, _ name: String) throws(FileError) -> Int64? {
    guard let text = try files.text(of: directory.appending(name)) else { return nil }
    return Int64(text.split(separator: "\n").first ?? "").map { max($0, 0) }
  }
}
