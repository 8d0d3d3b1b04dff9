import BlobRecord
import BlobStore
import Measuring
import Synchronization
import SystemPackage
import Workbench

/// Measures a cache at its limit that is filled on each miss: its bytes on the medium, and the writes per record.
///
/// Requests follow Zipf's law over four times as many keys as the limit has room for. A tenth of the hits is
/// replaced. Only the second half of the requests is counted.
struct Churn {
  enum Workload: String, CaseIterable {
    case withoutTTL
    case withTTL

    var title: String { self == .withTTL ? "with ttls" : "without ttl" }
  }

  private static let exponent = 0.9
  private static let requestsPerSecond = 50
  /// The times to live in requests, or `nil` for no expiry. Each one applies to the same number of keys.
  private static let timesToLive: [Int?] = [20_000, 60_000, 200_000, 600_000, 2_000_000, nil]

  private let workload: Workload
  private let directory: FilePath
  /// The capacity in records, according to the size limit.
  private let room: Int
  private let requests: Int

  init(_ plan: PackPlan, _ workload: Workload) {
    self.workload = workload
    directory = plan.directory.appending("churn-\(workload)")
    room = plan.isQuick ? 2000 : plan.records / 5
    requests = 10 * room
  }

  private struct Tally {
    var hits = 0
    var stores = 0
    /// Samples of the ratio of bytes on the medium to held bytes and to the limit.
    var toHeld: [Double] = []
    var toLimit: [Double] = []
  }

  func measured() throws -> [PackFigure] {
    let clock = RequestClock()
    var configuration = PackPlan.configuration()
    configuration.limits.size = Int64(room * PackPlan.logicalByteCount)
    configuration.now = { clock.now }
    let store = try BlobStore(directory: directory, configuration: configuration)
    let popularity = Zipf(count: 4 * room, exponent: Self.exponent)
    var generator = SplitMix(seed: 5)
    var tally = Tally()
    var firstSequence = 0
    for request in 0..<requests {
      if request == requests / 2 {
        tally = Tally()
        firstSequence = try PackSequence.current(in: directory)
      }
      clock.set(seconds: Int64(request / Self.requestsPerSecond))
      try ask(for: popularity.next(using: &generator), store, &tally, &generator)
      if request.isMultiple(of: requests / 100) { try look(at: store, &tally) }
    }
    let written = try PackSequence.current(in: directory) - firstSequence
    func figure(_ name: String, _ title: String, _ values: [Double]) -> PackFigure {
      PackFigure("\(name)-\(workload)", "at the limit, \(workload.title): \(title)", values)
    }
    return [
      figure("churnSpace", "bytes on disk per logical byte", tally.toHeld),
      figure("churnShare", "bytes on disk per byte of the limit", tally.toLimit),
      figure("writeAmplification", "records written per record stored", [Double(written) / Double(tally.stores)]),
      figure("hits", "hits", [Double(tally.hits) / Double(requests / 2)]),
    ]
  }

  private func ask(
    for number: Int, _ store: BlobStore, _ tally: inout Tally, _ generator: inout SplitMix
  ) throws {
    let key = PackPlan.key(number)
    let isHit = try store.load(key) != nil
    if isHit { tally.hits += 1 }
    guard !isHit || Int.random(in: 0..<10, using: &generator) == 0 else { return }
    try store.store(PackPlan.payload, for: key, ttl: timeToLive(of: number))
    tally.stores += 1
  }

  private func look(at store: BlobStore, _ tally: inout Tally) throws {
    let allocated = Double(try AllocatedBytes(below: directory).packs)
    guard let held = try store.usageEstimate()?.bytes, held > 0 else { return }
    tally.toHeld.append(allocated / Double(held))
    tally.toLimit.append(allocated / Double(room * PackPlan.logicalByteCount))
  }

  private func timeToLive(of number: Int) -> Duration? {
    guard workload == .withTTL else { return nil }
    return Self.timesToLive[number % Self.timesToLive.count].map { .seconds($0 / Self.requestsPerSecond) }
  }
}

private final class RequestClock: Sendable {
  private let seconds = Atomic<Int64>(0)

  var now: UnixTime { UnixTime(seconds: 1_700_000_000 + seconds.load(ordering: .relaxed)) }

  func set(seconds value: Int64) { seconds.store(value, ordering: .relaxed) }
}
