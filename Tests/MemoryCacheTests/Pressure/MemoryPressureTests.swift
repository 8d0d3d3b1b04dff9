import Dispatch
import Foundation
import MemoryCache
import Posix
import Synchronization
import SystemPackage
import TestSupport
import Testing

@Suite struct PressureDetectorTests {
  @Test func levelIsToldWhenReachedAndAgainWhenItLasts() {
    var detector = PressureDetector()
    let second: Int64 = 1_000_000_000
    #expect(detector.observe(stalled: nil, usedShare: nil, now: 0) == nil)
    #expect(detector.observe(stalled: .warning, usedShare: nil, now: 0) == .warning)
    #expect(detector.observe(stalled: .warning, usedShare: 0.9, now: 9 * second) == nil)
    #expect(detector.observe(stalled: .critical, usedShare: nil, now: 9 * second) == .critical)
    #expect(detector.observe(stalled: .warning, usedShare: nil, now: 18 * second) == nil)
    #expect(detector.observe(stalled: nil, usedShare: 0.86, now: 19 * second) == .warning)
  }

  @Test(
    arguments: [(0.0, nil), (0.84, nil), (0.85, .warning), (0.95, .critical), (3, .critical)]
      as [(
        Double, MemoryPressure?
      )])
  func limitHasTwoLevels(share: Double, level: MemoryPressure?) {
    var detector = PressureDetector()
    #expect(detector.observe(stalled: nil, usedShare: share, now: 0) == level)
  }
}

@Suite struct MemoryPressureMonitorTests {
  // MARK: - Control groups

  @Test func unifiedGroupCountsItsTightestLimitWithoutPageCache() throws {
    let system = try FakeSystem(membership: "0::/service/worker\n")
    for group in ["service", "service/worker"] {
      try system.write("sys/fs/cgroup/\(group)/memory.current", "900\n")
      try system.write("sys/fs/cgroup/\(group)/memory.max", "max\n")
      try system.write("sys/fs/cgroup/\(group)/memory.stat", "anon 1\ninactive_file 200\nactive_file 100\n")
    }
    let group = try #require(try system.group())
    #expect(group.version == .v2)
    #expect(group.directories.count == 2)
    #expect(group.stallFile?.string.hasSuffix("service/worker/memory.pressure") == true)
    #expect(try group.usedShare() == nil)
    try system.write("sys/fs/cgroup/service/memory.max", "1200\n")
    #expect(try group.usedShare() == 0.5)
    try system.write("sys/fs/cgroup/service/worker/memory.high", "800\n")
    #expect(try group.usedShare() == 0.75)
  }

  @Test func firstVersionIsReadFromItsOwnHierarchy() throws {
    let system = try FakeSystem(membership: "9:name=systemd:/\n4:cpu,memory:/box\n0::/\n")
    try system.write("sys/fs/cgroup/unified/cgroup.procs", "")
    try system.write("sys/fs/cgroup/memory/box/memory.usage_in_bytes", "600\n")
    try system.write("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "9223372036854771712\n")
    let group = try #require(try system.group())
    #expect(group.version == .v1)
    #expect(group.stallFile == nil)
    #expect(try group.usedShare() == nil)
    try system.write("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "1000\n")
    try system.write("sys/fs/cgroup/memory/box/memory.stat", "inactive_file 1\ntotal_inactive_file 100\n")
    #expect(try group.usedShare() == 0.5)
  }

  /// A container sees a path of the host, while its own group is at the root of the mount.
  @Test func groupThatIsNotThereFallsBackToTheMount() throws {
    let system = try FakeSystem(membership: "4:memory:/docker/abc\n")
    try system.write("sys/fs/cgroup/memory/memory.usage_in_bytes", "1\n")
    #expect(try system.group()?.directories.map { $0.lastComponent?.string } == ["memory"])
  }

  @Test(arguments: ["", "nonsense", "::::", "0::/../../etc", "4:memory"])
  func membershipThatMakesNoSense(membership: String) throws {
    let system = try FakeSystem(membership: membership)
    #expect(try system.group() == nil)
  }

  @Test func textThatMakesNoSenseIsNoLimit() throws {
    let system = try FakeSystem(membership: "0::/\n")
    try system.write("sys/fs/cgroup/memory.current", "-9223372036854775808\n")
    try system.write("sys/fs/cgroup/memory.stat", "active_file 9223372036854775807\ninactive_file -9223372036854775808")
    for limit in ["", "-5", "0", "99999999999999999999", "\u{0}", "9223372036854775807"] {
      try system.write("sys/fs/cgroup/memory.max", limit)
      #expect(try system.group()?.usedShare() == nil)
    }
    try system.write("sys/fs/cgroup/memory.max", "5")
    #expect(try system.group()?.usedShare() == 0)
  }

  // MARK: - Watching

  @Test(.timeLimit(.minutes(30)), .enabled(if: isLinux)) func fullGroupIsTold() async throws {
    let system = try FakeSystem(membership: "0::/\n")
    try system.write("sys/fs/cgroup/memory.current", "10\n")
    try system.write("sys/fs/cgroup/memory.max", "100\n")
    let monitor = system.monitor()
    var levels: [MemoryPressure] = []
    let (stream, continuation) = AsyncStream.makeStream(of: MemoryPressure.self)
    let subscription = monitor.onPressure { continuation.yield($0) }
    #expect(monitor.sources.map(\.kind) == [.limit])
    try system.write("sys/fs/cgroup/memory.current", "90\n")
    for await level in stream {
      levels.append(level)
      if level == .critical { break }
      try system.write("sys/fs/cgroup/memory.current", "99\n")
    }
    // A level is reported repeatedly as long as it lasts, and it may last long on a busy machine.
    #expect(levels.count > 1)
    #expect(levels.dropLast().allSatisfy { $0 == .warning })
    withExtendedLifetime(subscription) {}
  }

  @Test(.enabled(if: isLinux)) func triggersAreWrittenIntoTheGroupsFile() throws {
    let system = try FakeSystem(membership: "0::/a\n")
    try system.write("sys/fs/cgroup/a/memory.current", "1\n")
    try system.write("sys/fs/cgroup/a/memory.pressure", "")
    try system.write("proc/pressure/memory", "")
    let monitor = system.monitor()
    let subscription = monitor.onPressure { _ in }
    #expect(try system.text("sys/fs/cgroup/a/memory.pressure") == "full 200000 2000000\n")
    #expect(try system.text("proc/pressure/memory") == "")
    #expect(monitor.sources.map(\.kind) == [.limit, .stall])
    withExtendedLifetime(subscription) {}
    #expect(monitor.sources.map(\.failure) == [nil, nil] || monitor.sources.isEmpty)
  }

  @Test(.enabled(if: isLinux)) func refusalIsSaidAndTheRestIsWatched() throws {
    let system = try FakeSystem(membership: "0::/\n")
    try system.write("sys/fs/cgroup/memory.current", "1\n")
    try system.write("sys/fs/cgroup/memory.pressure", "")
    let files = Files { call, location in
      call == .writeTrigger && location.path.lastComponent?.string == "memory.pressure" ? .fail(.permissionDenied) : nil
    }
    let monitor = system.monitor(files)
    let subscription = monitor.onPressure { _ in }
    let failures = monitor.sources.compactMap(\.failure)
    #expect(failures.count == 1)
    #expect(failures.allSatisfy { $0.contains("write(2): Permission denied") })
    #expect(monitor.sources.contains { $0.kind == .limit && $0.failure == nil })
    withExtendedLifetime(subscription) {}
  }

  @Test(.enabled(if: isLinux), arguments: [SystemCall.pipe, .openBeneath, .openDirectory, .read, .poll])
  func failingCallsAreSurvived(call: SystemCall) throws {
    let system = try FakeSystem(membership: "0::/\n")
    try system.write("sys/fs/cgroup/memory.current", "1\n")
    try system.write("proc/pressure/memory", "")
    let monitor = system.monitor(Files { made, _ in made == call ? .fail(.noMemory) : nil })
    let subscription = monitor.onPressure { _ in }
    if call != .poll { #expect(monitor.sources.contains { $0.failure != nil }) }
    withExtendedLifetime(subscription) {}
  }

  /// The thread and its descriptors are released with the last subscription, and created again with the next one.
  @Test(.timeLimit(.minutes(30)), .enabled(if: isLinux)) func watchEndsWithTheLastSubscription() async throws {
    let system = try FakeSystem(membership: "0::/\n")
    try system.write("sys/fs/cgroup/memory.current", "1\n")
    try system.write("sys/fs/cgroup/memory.max", "100\n")
    let closes = Atomic(0)
    let monitor = system.monitor(
      Files { call, location in
        if call == .close, location.path.string == "pipe" { closes.add(1, ordering: .relaxed) }
        return nil
      })
    for round in 1...2 {
      var first: MemoryPressureSubscription? = monitor.onPressure { _ in }
      let second = monitor.onPressure { _ in }
      first = nil
      #expect(first == nil && monitor.sources.count == 1)
      withExtendedLifetime(second) {}
      _ = consume second
      while closes.load(ordering: .relaxed) < 2 * round { try await Task.sleep(for: .milliseconds(1)) }
      #expect(monitor.sources.isEmpty)
    }
  }

  /// Uses the files of the machine, if this process may read them.
  @Test func systemIsWatched() {
    let monitor = MemoryPressureMonitor()
    let subscription = monitor.onPressure { _ in }
    #expect(monitor.sources.allSatisfy { $0.failure?.isEmpty != true })
    withExtendedLifetime(subscription) {}
  }

  @Test func subscriptionKeepsTheMonitorAndTheCacheIsNotKept() {
    weak var weakCache: MemoryCache<Int, Int>?
    do {
      let cache = MemoryCache<Int, Int>()
      cache[1] = 1
      weakCache = cache
    }
    #expect(weakCache == nil)
  }
}
