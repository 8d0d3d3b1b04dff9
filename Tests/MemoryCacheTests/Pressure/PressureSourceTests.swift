import Foundation
import Locks
import MemoryCache
import Posix
import SystemPackage
import TestSupport
import Testing

/// The files that a monitor reads, and the report of each unreadable file, once.
@Suite(.enabled(if: isLinux)) struct PressureSourceTests {
  private static let machine = "proc/pressure/memory"

  // MARK: - The machine's pressure

  @Test func machineIsWatchedWhereThereIsNoGroup() throws {
    for membership in ["0::/\n", "4:memory:/\n", ""] {
      let system = try FakeSystem(membership: membership)
      try system.write(Self.machine, "")
      let monitor = system.monitor()
      let subscription = monitor.onPressure { _ in }
      #expect(monitor.sources.map(\.kind) == [.stall])
      #expect(try system.text(Self.machine) == "full 200000 2000000\n")
      withExtendedLifetime(subscription) {}
    }
  }

  /// In a group, the pressure of the machine is ignored, whether or not the group's file can be used.
  @Test(arguments: [true, false]) func machineIsLeftAloneWhereThereIsAGroup(hasFile: Bool) throws {
    let system = try FakeSystem(used: 1, limit: 100)
    try system.write(Self.machine, "")
    if hasFile { try system.write("sys/fs/cgroup/memory.pressure", "") }
    let monitor = system.monitor(
      Files { call, location in
        call == .writeTrigger && location.path.lastComponent == "memory.pressure" ? .fail(.notPermitted) : nil
      })
    let subscription = monitor.onPressure { _ in }
    #expect(try system.text(Self.machine) == "")
    #expect(monitor.sources.filter { $0.failure == nil }.map(\.kind) == [.limit])
    #expect(monitor.sources.count == (hasFile ? 2 : 1))
    withExtendedLifetime(subscription) {}
  }

  /// A group of version 1 has no pressure file. Without a limit, the machine's memory is the limit.
  @Test(arguments: [(1 << 20, "1048576"), (nil, "9223372036854771712")])
  func machineIsWatchedBesideAGroupOfTheFirstVersionWithoutALimit(limit: Int64?, text: String) throws {
    let system = try FakeSystem(membership: "4:memory:/box\n")
    try system.write("sys/fs/cgroup/memory/box/memory.usage_in_bytes", "1\n")
    try system.write("sys/fs/cgroup/memory/box/memory.limit_in_bytes", text + "\n")
    try system.write(Self.machine, "")
    let monitor = system.monitor()
    let subscription = monitor.onPressure { _ in }
    #expect(try system.group()?.tightestLimit() == limit)
    #expect(try system.text(Self.machine) == (limit == nil ? "full 200000 2000000\n" : ""))
    #expect(monitor.sources.map(\.kind) == (limit == nil ? [.limit, .stall] : [.limit]))
    withExtendedLifetime(subscription) {}
  }

  // MARK: - Failures

  /// Each unreadable file is reported once and to one subscriber, however often the watch restarts.
  @Test func failureIsToldOnce() throws {
    let system = try FakeSystem(used: 1, limit: 100)
    try system.write("sys/fs/cgroup/memory.pressure", "")
    let monitor = system.monitor(Files { call, _ in call == .writeTrigger ? .fail(.notPermitted) : nil })
    let told = Lock<[MemoryPressureSource]>([])
    let deaf = monitor.onPressure { _ in }
    #expect(told.withLock { $0 }.isEmpty)
    withExtendedLifetime(deaf) {}
    _ = consume deaf
    for _ in 0..<3 {
      let first = monitor.onPressure({ _ in }, onFailure: { source in told.withLock { $0.append(source) } })
      let second = monitor.onPressure({ _ in }, onFailure: { source in told.withLock { $0.append(source) } })
      withExtendedLifetime((first, second)) {}
    }
    let failures = told.withLock { $0 }
    #expect(failures.count == 1)
    #expect(failures.first?.kind == .stall)
    #expect(failures.first?.failure?.contains("write(2): Operation not permitted") == true)
  }

  @Test(.timeLimit(.minutes(30)), arguments: [SystemCall.poll, .read])
  func failureOfTheThreadIsTold(call: SystemCall) async throws {
    let system = try FakeSystem(used: 1, limit: 100)
    let isFailing = Lock(call == .poll)
    let monitor = system.monitor(
      Files { made, _ in made == call && isFailing.withLock { $0 } ? .fail(.noMemory) : nil })
    let (stream, continuation) = AsyncStream.makeStream(of: MemoryPressureSource.self)
    let subscription = monitor.onPressure({ _ in }, onFailure: { continuation.yield($0) })
    isFailing.withLock { $0 = true }
    for await source in stream {
      #expect(source.kind == .limit)
      #expect(source.failure?.contains("Cannot allocate memory") == true)
      break
    }
    #expect(monitor.sources.allSatisfy { $0.failure != nil })
    withExtendedLifetime(subscription) {}
  }

  @Test func cacheTellsItsOwner() throws {
    let system = try FakeSystem(membership: "")
    try system.write(Self.machine, "")
    let told = Lock<[MemoryPressureSource]>([])
    var configuration = MemoryCacheConfiguration()
    configuration.pressureMonitor = system.monitor(
      Files { call, _ in call == .writeTrigger ? .fail(.notPermitted) : nil })
    configuration.onPressureFailure = { source in told.withLock { $0.append(source) } }
    let cache = MemoryCache<Int, Int>(configuration)
    #expect(told.withLock { $0.map(\.kind) } == [.stall])
    withExtendedLifetime(cache) {}
  }
}
