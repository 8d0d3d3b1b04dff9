import Foundation
import Locks
import MemoryCache
import Posix
import Synchronization
import SystemPackage
import TestSupport
import Testing

/// A fast growing cache does not exceed its control group between two checks of the monitor.
@Suite(.enabled(if: isLinux)) struct GrowthTests {
  private static let mebibyte = 1 << 20

  private func configuration(_ monitor: MemoryPressureMonitor, shards: Int = 1) -> MemoryCacheConfiguration {
    var configuration = MemoryCacheConfiguration(limits: MemoryCacheLimits(cost: 64 * Self.mebibyte))
    configuration.pressureMonitor = monitor
    configuration.costsAreBytes = true
    configuration.shards = shards
    return configuration
  }

  /// Returns a monitor whose periodic checks are an hour apart, so that only growth can cause a release.
  private func monitor(_ system: FakeSystem, _ files: Files = Files()) -> MemoryPressureMonitor {
    system.monitor(files, period: .seconds(3600))
  }

  @Test(arguments: [1, 8]) func growthStopsWhereTheGroupIsShort(shards: Int) throws {
    let system = try FakeSystem(used: 10, limit: 100)
    let cache = MemoryCache<Int, Int>(configuration(monitor(system), shards: shards))
    for key in 0..<20 * 64 { cache.setValue(key, forKey: key, cost: Self.mebibyte / 64) }
    #expect(cache.totalCost == 20 * Self.mebibyte)
    try system.write("sys/fs/cgroup/memory.current", "86\n")
    for key in 5_000..<5_000 + 40 * 64 {
      cache.setValue(key, forKey: key, cost: Self.mebibyte / 64)
      #expect(cache.totalCost <= 21 * Self.mebibyte + shards * Self.mebibyte / 64)
    }
    #expect(cache.totalCost <= 4 * Self.mebibyte)
    try system.write("sys/fs/cgroup/memory.current", "96\n")
    for key in 10_000..<10_000 + 4 * 64 { cache.setValue(key, forKey: key, cost: Self.mebibyte / 64) }
    #expect(cache.statistics.evictions > 0)
    #expect(cache.totalCost < 2 * Self.mebibyte)
    cache.checkInvariants()
  }

  /// A single large value is checked too, and growth after a release is checked again.
  @Test func everyMebibyteIsLookedAt() throws {
    let looks = Atomic(0)
    let files = Files { call, location in
      if call == .openBeneath, location.path.lastComponent == "memory.max" { looks.add(1, ordering: .relaxed) }
      return nil
    }
    let system = try FakeSystem(used: 10, limit: 100)
    let cache = MemoryCache<Int, Int>(configuration(monitor(system, files)))
    func count(_ body: () -> Void) -> Int {
      let before = looks.load(ordering: .relaxed)
      body()
      return looks.load(ordering: .relaxed) - before
    }
    #expect(count { for key in 0..<8 { cache.setValue(key, forKey: key, cost: Self.mebibyte) } } == 8)
    #expect(count { for _ in 0..<8 { cache.setValue(0, forKey: 0, cost: Self.mebibyte) } } == 0)
    #expect(count { cache.setValue(0, forKey: 8, cost: Self.mebibyte - 1) } == 0)
    #expect(count { cache.setValue(0, forKey: 9, cost: 1) } == 1)
    #expect(count { cache.setValue(0, forKey: 10, cost: 30 * Self.mebibyte) } == 1)
    cache.removeAll()
    #expect(count { for key in 0..<8 { cache.setValue(key, forKey: key, cost: Self.mebibyte) } } == 8)
  }

  /// At the limit each value replaces another, so nothing is checked.
  @Test func aFullCacheDoesNotLook() throws {
    let looks = Atomic(0)
    let system = try FakeSystem(used: 10, limit: 100)
    let files = Files { call, location in
      if call == .openBeneath, location.path.lastComponent == "memory.max" { looks.add(1, ordering: .relaxed) }
      return nil
    }
    let cache = MemoryCache<Int, Int>(configuration(monitor(system, files)))
    for key in 0..<64 { cache.setValue(key, forKey: key, cost: Self.mebibyte) }
    let before = looks.load(ordering: .relaxed)
    for key in 64..<256 { cache.setValue(key, forKey: key, cost: Self.mebibyte) }
    #expect(looks.load(ordering: .relaxed) == before)
  }

  @Test func costsThatAreNoBytesAreNotLookedAt() throws {
    let system = try FakeSystem(used: 99, limit: 100)
    for (costsAreBytes, responds) in [(false, true), (true, false)] {
      var configuration = configuration(monitor(system))
      configuration.costsAreBytes = costsAreBytes
      configuration.respondsToMemoryPressure = responds
      let cache = MemoryCache<Int, Int>(configuration)
      for key in 0..<8 { cache.setValue(key, forKey: key, cost: Self.mebibyte) }
      #expect(cache.count == 8)
    }
  }

  @Test(.timeLimit(.minutes(30))) func aGroupThatCannotBeReadIsToldAndTheCacheGrows() throws {
    let system = try FakeSystem(used: 10, limit: 100)
    let isFailing = Atomic(false)
    let told = Lock<[MemoryPressureSource]>([])
    var configuration = configuration(
      monitor(system, Files { call, _ in call == .read && isFailing.load(ordering: .relaxed) ? .fail(.ioError) : nil }))
    configuration.onPressureFailure = { source in told.withLock { $0.append(source) } }
    let cache = MemoryCache<Int, Int>(configuration)
    isFailing.store(true, ordering: .relaxed)
    for key in 0..<8 { cache.setValue(key, forKey: key, cost: Self.mebibyte) }
    #expect(cache.count == 8)
    #expect(told.withLock { $0.map(\.kind) } == [.limit])
  }

  // MARK: - The default limit

  /// The limits of a group and of a nested group, and the resulting default limit of a cache.
  private static let limits: [(outer: String, inner: String, expected: Int)] = [
    ("max", "max", 64 << 20), ("50331648", "max", 6 << 20), ("max", "100663296", 12 << 20),
    ("1073741824", "99999999999", 64 << 20), ("8000", "80000", 1000), ("0", "nonsense", 64 << 20),
  ]

  @Test(arguments: limits, ["memory.max", "memory.high"])
  func defaultIsAnEighthOfTheTightestLimit(limits: (outer: String, inner: String, expected: Int), name: String) throws {
    let system = try FakeSystem(membership: "0::/a/b\n")
    for (group, limit) in [("a", limits.outer), ("a/b", limits.inner)] {
      try system.write("sys/fs/cgroup/\(group)/memory.current", "1\n")
      try system.write("sys/fs/cgroup/\(group)/\(name)", limit + "\n")
    }
    #expect(DefaultLimit.byteCount(root: system.directory.path, files: Files()) == limits.expected)
  }

  /// If a container does not see its parent groups, the kernel reports their limit.
  @Test func defaultHeedsTheGroupsThatAContainerDoesNotSee() throws {
    let system = try FakeSystem(membership: "4:memory:/docker/abc\n")
    #expect(DefaultLimit.byteCount(root: system.directory.path, files: Files()) == 64 << 20)
    try system.write("sys/fs/cgroup/memory/memory.usage_in_bytes", "700\n")
    try system.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
    try system.write("sys/fs/cgroup/memory/memory.stat", "hierarchical_memory_limit 8000\ntotal_active_file 100\n")
    #expect(DefaultLimit.byteCount(root: system.directory.path, files: Files()) == 1000)
    #expect(try system.group()?.usedShare() == 600.0 / 8000)
    try system.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "1600\n")
    #expect(DefaultLimit.byteCount(root: system.directory.path, files: Files()) == 200)
  }

  @Test func whatCannotBeReadIsNoLimit() throws {
    let system = try FakeSystem(used: 1, limit: 8000)
    let files = Files { call, _ in call == .read ? .fail(.ioError) : nil }
    #expect(DefaultLimit.byteCount(root: system.directory.path, files: files) == 64 << 20)
  }
}

#if os(Linux)
  /// A real control group with a child process that the kernel would kill.
  @Suite(.serialized, .enabled(if: MemoryGroup.canBeMade, "needs the right to make a control group"))
  struct MemoryGroupTests {
    /// Fills a cache with four times the group's limit as fast as possible.
    private static func fill(limit: Int, responds: Bool) {
      var configuration = MemoryCacheConfiguration(limits: MemoryCacheLimits(cost: limit))
      configuration.costsAreBytes = true
      configuration.respondsToMemoryPressure = responds
      let cache = MemoryCache<Int, [UInt8]>(configuration)
      for key in 0..<384 { cache.setValue([UInt8](repeating: 1, count: 1 << 19), forKey: key, cost: 1 << 19) }
      precondition(cache.count > 0)
    }

    @Test func aSmallGroupSurvivesTheDefaultFilledFast() async throws {
      let group = try MemoryGroup(limit: 48 << 20)
      defer { group.remove() }
      await #expect(processExitsWith: .success) {
        try MemoryGroup.join()
        try #require(DefaultLimit.ofProcess == 6 << 20)
        Self.fill(limit: DefaultLimit.ofProcess, responds: true)
      }
    }

    /// A process survives even with a cache limit larger than the group.
    @Test func aSmallGroupSurvivesALimitLargerThanItself() async throws {
      let group = try MemoryGroup(limit: 48 << 20)
      defer { group.remove() }
      await #expect(processExitsWith: .success) {
        try MemoryGroup.join()
        Self.fill(limit: 256 << 20, responds: true)
      }
    }

    /// Without checks the kernel kills the process, which shows that the test is effective.
    @Test func aGroupThatIsNotLookedAtIsOutgrown() async throws {
      let group = try MemoryGroup(limit: 48 << 20)
      defer { group.remove() }
      await #expect(processExitsWith: .signal(9)) {
        try MemoryGroup.join()
        Self.fill(limit: 256 << 20, responds: false)
      }
    }
  }
#endif
