import BlobStore
import SystemPackage
import Workbench

/// Measures stores that overwrite dead files, against raw system calls that create and unlink files.
///
/// Both sides take turns in small rounds, as in the other suites. The raw side unlinks its files, as a cache at its
/// limit does constantly. Replaced, removed and evicted files are on the medium by then, as in every cache that lives
/// longer than the kernel's writeback delay. Without blocks on the medium, an unlink would cost little.
struct RecyclingSuite {
  let plan: Plan
  /// The number of stores of a churn. The first half of them is not timed.
  let churnOperations: Int
  let progress: (String) -> Void

  func run() throws -> [Comparison] {
    var comparisons: [Comparison] = []
    for size in plan.sizes {
      if plan.includes(.storeCold) { comparisons += try cold(size: size) }
      if [.replaceRecycled, .removeRecycled].contains(where: plan.includes) {
        comparisons += try lifecycle(size: size)
      }
      if plan.includes(.churn) { comparisons += try churn(size: size) }
    }
    return comparisons
  }

  /// The two baselines of each operation: without checksums, and with a checksum of the bytes on both sides.
  private static let baselines = ["raw", "raw+crc"]

  private func storeName(_ size: Int) -> String { size > 4 << 10 ? "recycling, large" : "recycling" }

  /// The maximum size of the bin in bytes, which equals the default.
  private static let binBytes = 16 << 20

  private func makeStore(
    _ directory: FilePath, _ change: (inout BlobStore.Configuration) -> Void = { _ in }
  ) throws -> BlobStore {
    _ = try RawContender(directory: directory)
    var configuration = StoreContender.configuration(.checksummed)
    configuration.recycling = .automatic
    change(&configuration)
    return try BlobStore(directory: directory, configuration: configuration)
  }

  // MARK: - One key at a time

  /// Returns the number of keys of a round, whose displaced files must fit into the bin.
  private func count(size: Int) -> Int { max(min(plan.operations, Self.binBytes / 2 / (size + 4096)), 4) }

  private func contenders(_ name: String, size: Int) throws -> (BlobStore, [RawContender]) {
    let raws = try Self.baselines.map { baseline in
      try RawContender(
        directory: plan.directory.appending("\(name)-\(baseline)-\(size)"), checksums: baseline != "raw")
    }
    return (try makeStore(plan.directory.appending("\(name)-\(size)")), raws)
  }

  /// Times one operation of the three contenders, and alternates their order between rounds.
  private func times(_ round: Int, store: () throws -> Void, raw: (Int) throws -> Void) rethrows -> (Double, [Double]) {
    var storeTime = 0.0
    var rawTimes = [0.0, 0.0]
    for turn in round.isMultiple(of: 2) ? [0, 1, 2] : [2, 1, 0] {
      if turn == 0 { storeTime = try time(store) } else { rawTimes[turn - 1] = try time { try raw(turn - 1) } }
    }
    return (storeTime, rawTimes)
  }

  /// Measures stores of new keys before anything was displaced. The bin is empty, and no inode was freed recently,
  /// which would make the next inode expensive.
  private func cold(size: Int) throws -> [Comparison] {
    progress("new files of \(size) bytes")
    let material = Material(payloadSize: size)
    let count = count(size: size)
    let (store, raws) = try contenders("cold", size: size)
    var comparisons = Self.baselines.map {
      Comparison(operation: .storeCold, size: size, store: storeName(size), baseline: $0)
    }
    for round in 0...plan.rounds {
      let keys = Keys(from: round * count, count: count)
      try synchronizeFileSystem(of: plan.directory)
      let (storeTime, rawTimes) = try times(round) {
        try perform(.storeCold, store, keys, material)
      } raw: {
        try raws[$0].perform(.store, keys, material)
      }
      guard round > 0 else { continue }
      for index in rawTimes.indices {
        comparisons[index].storeTimes.append(storeTime / Double(count))
        comparisons[index].baselineTimes.append(rawTimes[index] / Double(count))
      }
    }
    return comparisons
  }

  private func lifecycle(size: Int) throws -> [Comparison] {
    progress("recycling files of \(size) bytes")
    let material = Material(payloadSize: size)
    let count = count(size: size)
    let (store, raws) = try contenders("recycling", size: size)
    let operations: [Operation] = [.replaceRecycled, .removeRecycled]
    var comparisons = operations.flatMap { operation in
      Self.baselines.map { Comparison(operation: operation, size: size, store: storeName(size), baseline: $0) }
    }
    for round in 0...plan.rounds {
      let keys = Keys(from: round * count, count: count)
      // The first replacement fills the bin. From the second one on, replacements run in the steady state.
      for _ in 0..<2 { try perform(.storeCold, store, keys, material) }
      for raw in raws { try raw.perform(.store, keys, material) }
      for (number, operation) in operations.enumerated() {
        try synchronizeFileSystem(of: plan.directory)
        let (storeTime, rawTimes) = try times(round) {
          try perform(operation, store, keys, material)
        } raw: {
          try raws[$0].perform(operation.raw, keys, material)
        }
        guard round > 0 else { continue }
        for index in rawTimes.indices {
          comparisons[number * 2 + index].storeTimes.append(storeTime / Double(count))
          comparisons[number * 2 + index].baselineTimes.append(rawTimes[index] / Double(count))
        }
      }
    }
    return comparisons.filter { plan.includes($0.operation) }
  }

  private func perform(_ operation: Operation, _ store: BlobStore, _ keys: Keys, _ material: Material) throws {
    for key in keys.blob {
      if operation == .removeRecycled {
        try BenchmarkFailure.require(store.remove(key) == .done, "remove missed \(key)")
      } else {
        try store.store(material.payload, for: key)
      }
    }
  }

  // MARK: - At the limit

  /// Measures stores of new keys into a full directory, in which each store evicts one record on average. The time
  /// includes the collections that the stores start concurrently.
  private func churn(size: Int) throws -> [Comparison] {
    progress("churn of \(size) bytes")
    let material = Material(payloadSize: size)
    let records = max(min(2000, (256 << 20) / max(size, 1)), 64)
    let count = max(min(churnOperations, (1 << 30) / max(size, 1)), 4 * records) / 2
    let batch = max(min(count / plan.rounds, 2000), 4)
    let store = try makeStore(plan.directory.appending("churn-\(size)")) {
      $0.limits.size = Int64(records * (size + 64))
      $0.limits.freeSpaceFloor = 0
    }
    let raws = try Self.baselines.map { name in
      try RawContender(directory: plan.directory.appending("churn-\(name)-\(size)"), checksums: name != "raw")
    }
    var comparisons = Self.baselines.map {
      Comparison(operation: .churn, size: size, store: storeName(size), baseline: $0)
    }
    var first = 0
    while first < count {
      for key in Keys(from: first, count: batch).blob { try store.store(material.payload, for: key) }
      first += batch
    }
    let lag = records / batch + 1
    for raw in raws {
      for number in 0..<lag { try raw.perform(.store, Keys(from: number * batch, count: batch), material) }
    }
    for round in 0...plan.rounds {
      let new = Keys(from: first, count: batch)
      let added = Keys(from: (lag + round) * batch, count: batch)
      let old = Keys(from: round * batch, count: batch)
      first += batch
      try synchronizeFileSystem(of: plan.directory)
      let (storeTime, rawTimes) = try times(round) {
        for key in new.blob { try store.store(material.payload, for: key) }
      } raw: {
        try raws[$0].perform(.store, added, material)
        try raws[$0].perform(.remove, old, material)
      }
      guard round > 0 else { continue }
      for (index, rawTime) in rawTimes.enumerated() {
        comparisons[index].storeTimes.append(storeTime / Double(batch))
        comparisons[index].baselineTimes.append(rawTime / Double(batch))
      }
    }
    return comparisons
  }
}

extension Operation {
  /// The corresponding operation of the raw side.
  fileprivate var raw: Operation {
    switch self {
    case .replaceRecycled: .replace
    case .removeRecycled: .remove
    default: .store
    }
  }
}
