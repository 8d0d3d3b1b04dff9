import Foundation
import Synchronization
import Testing

/// The guarantees between machines with concurrent clients, while nodes are killed and the engine fails.
@Suite(.timeLimit(.minutes(LongRun.isWanted ? 60 : 10))) struct FleetHistoryTests {
  enum Trouble: String, Sendable, CaseIterable {
    case kills
    /// The network fails, and the engine pauses.
    case faults
    /// Nodes are killed, the network and the engine fail, and the engine is killed.
    case all
  }

  struct Plan: Sendable, CustomTestStringConvertible {
    let store: FleetEngine.Kind
    let writesThrough: Bool
    let trouble: Trouble

    /// A Boolean value that indicates whether a normal run has the plan: `blobcache-serve` with kills, Redis with
    /// faults.
    var isShort: Bool {
      switch store {
      case .serve: trouble != .faults
      case .redis: trouble == .faults
      case .seaweed: false
      }
    }

    var testDescription: String { "\(store.rawValue), \(writesThrough ? "through" : "behind"), \(trouble)" }
  }

  /// All combinations of engine, writing mode and trouble in the long run, and a selection otherwise.
  private static let plans: [Plan] = {
    var plans: [Plan] = []
    for store in FleetEngine.Kind.available {
      for trouble in Trouble.allCases {
        for writesThrough in [true, false] {
          plans.append(Plan(store: store, writesThrough: writesThrough, trouble: trouble))
        }
      }
    }
    return LongRun.isWanted ? plans : plans.filter(\.isShort)
  }()

  /// The seed in `BLOBCACHE_TEST_SEED`, or two random seeds in the long run, or 1.
  private static let seeds: [UInt64] = {
    if let text = ProcessInfo.processInfo.environment["BLOBCACHE_TEST_SEED"], let seed = UInt64(text) { return [seed] }
    return LongRun.isWanted ? (0..<2).map { _ in UInt64.random(in: 0..<1 << 32) } : [1]
  }()

  @Test(.serialized, arguments: plans, seeds) func eachAnswerIsOneThatIsPromised(
    _ plan: Plan, seed: UInt64
  ) async throws {
    let fleet = try await Fleet(plan, seed: seed)
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask { try await fleet.makeTrouble() }
      try await fleet.ask(LongRun.isWanted ? 200 : 40)
      try await group.waitForAll()
    }
    let last = try await fleet.finish()
    let oracle = FleetOracle(
      fleet.history.recorded, .init(writesThrough: plan.writesThrough, isTroubled: plan.trouble != .kills))
    let violations = oracle.violations(last: last)
    #expect(violations.isEmpty, "BLOBCACHE_TEST_SEED=\(seed): \(violations.joined(separator: "\n"))")
  }
}

/// Three nodes that share a dedicated engine behind a proxy.
private final class Fleet: Sendable {
  let history = FleetHistory()
  private let plan: FleetHistoryTests.Plan
  private let seed: UInt64
  private let place: URL
  private let engine: FleetEngine
  private let proxy: FaultProxy
  private let ports: [Int]
  private let nodes: Mutex<[FleetNode]>
  /// A Boolean value that indicates whether clients must stop, because all have finished or a server did not start.
  private let isOver = Atomic(false)
  private static let keys = 6

  init(_ plan: FleetHistoryTests.Plan, seed: UInt64) async throws {
    (self.plan, self.seed) = (plan, seed)
    place = FileManager.default.temporaryDirectory.appending(path: "fleet-\(UUID().uuidString)")
    engine = try await FleetEngine(plan.store, at: place.appending(path: "engine"))
    proxy = try FaultProxy(to: engine.port)
    ports = try EngineServer.freePorts(3)
    nodes = Mutex([])
    for index in ports.indices {
      let node = try await start(index)
      nodes.withLock { $0.append(node) }
    }
  }

  deinit { try? FileManager.default.removeItem(at: place) }

  private func start(_ index: Int) async throws -> FleetNode {
    // The timeout is long for slow machines, but short if the engine fails.
    let timeout = plan.trouble == .kills ? "5m" : "1s"
    let options = ["--remote-writing", plan.writesThrough ? "through" : "behind", "--remote-timeout", timeout]
    return try await FleetNode(
      remote: engine.url(proxy.port), options, port: ports[index], cache: place.appending(path: "\(index)"))
  }

  /// Sends requests from two clients per node, with a thread each.
  func ask(_ count: Int) async throws {
    defer { isOver.store(true, ordering: .relaxed) }
    try await withThrowingTaskGroup(of: Void.self) { group in
      for (node, port) in ports.enumerated() {
        for client in 0..<2 {
          group.addTask { [self] in
            await onThread { [self] in
              var random = SplitMix(seed: seed &* 1000 &+ UInt64(2 * node + client))
              var asked = 0
              while asked < count, !isOver.load(ordering: .relaxed) {
                let (choice, key) = (
                  Int.random(in: 0..<100, using: &random), Int.random(in: 0..<Self.keys, using: &random)
                )
                // A killed node refuses connections until it is restarted.
                while !history.ask(choice, node: node, port: port, key: key), !isOver.load(ordering: .relaxed) {
                  usleep(5000)
                }
                asked += 1
              }
            }
          }
        }
      }
      try await group.waitForAll()
    }
  }

  /// Causes trouble repeatedly until all clients have finished, but at least once.
  func makeTrouble() async throws {
    defer { isOver.store(true, ordering: .relaxed) }
    var random = SplitMix(seed: seed)
    repeat {
      switch plan.trouble {
      case .kills: try await killNode(&random)
      case .faults: try await failEngine(&random)
      case .all:
        if Bool.random(using: &random) { try await killNode(&random) } else { try await failEngine(&random) }
      }
      try await Task.sleep(for: .milliseconds(Int.random(in: 20..<300, using: &random)))
    } while !isOver.load(ordering: .relaxed)
  }

  private func killNode(_ random: inout SplitMix) async throws {
    let index = Int.random(in: ports.indices, using: &random)
    let start = history.tick()
    nodes.withLock { $0[index] }.server.kill()
    let node = try await self.start(index)
    nodes.withLock { $0[index] = node }
    history.addRestart(of: index, start: start)
  }

  private func failEngine(_ random: inout SplitMix) async throws {
    let faults: [FaultProxy.Fault] = [
      .refuse, .hang, .stall(after: 100), .truncate(after: 300), .reset(after: 1000), .flip(at: 400),
    ]
    let choice = Int.random(in: 0..<faults.count + 2, using: &random)
    let time = Int.random(in: 50..<600, using: &random)
    if choice < faults.count {
      try proxy.set(faults[choice])
      try await Task.sleep(for: .milliseconds(time))
      try proxy.set(.none)
    } else if choice == faults.count, plan.trouble == .all, engine.keepsObjects {
      try await engine.restart()
    } else {
      engine.send(SIGSTOP)
      try await Task.sleep(for: .milliseconds(time))
      engine.send(SIGCONT)
    }
  }

  /// - Returns: The gets of a node without copies, after all changes have arrived at the engine.
  func finish() async throws -> [FleetHistory.Operation] {
    let nodes = nodes.withLock { $0 }
    let reader = try await FleetNode(remote: engine.url(engine.port))
    for node in nodes {
      // The node's circuit breaker may still be open.
      try await eventually("what a node stores is shared") {
        let key = "last-\(UUID().uuidString)"
        #expect(try node.put(key, "whole") == 201)
        try await node.drain()
        return try reader.get(key).text == "whole"
      }
    }
    let asked = FleetHistory(after: history.tick())
    for key in 0..<Self.keys { _ = asked.ask(99, node: nodes.count, port: reader.port, key: key) }
    #expect(asked.recorded.mistakes.isEmpty)
    return asked.recorded.operations
  }
}

/// Runs blocking work in a new thread.
private func onThread(_ body: @escaping @Sendable () -> Void) async {
  await withCheckedContinuation { continuation in
    Thread.detachNewThread {
      body()
      continuation.resume()
    }
  }
}
