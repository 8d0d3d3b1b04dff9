import BlobStore
import SystemPackage
import Workbench

/// The extent and the directory of a run.
struct Plan {
  let directory: FilePath
  let rounds: Int
  let operations: Int
  let sizes: [Int]
  /// The number of records in the large directory of `open`.
  let manyRecords: Int
  let filter: Set<Operation>

  func includes(_ operation: Operation) -> Bool { filter.isEmpty || filter.contains(operation) }
}

/// All measurements of a run.
///
/// Contenders take turns in small rounds and in alternating order, so that other load affects all of them equally.
struct Suite {
  let plan: Plan
  let progress: (String) -> Void

  func run() throws -> [Comparison] {
    var comparisons: [Comparison] = []
    if Operation.lifecycle.contains(where: plan.includes) {
      for size in plan.sizes { comparisons += try lifecycle(size: size) }
    }
    if plan.includes(.enumerate) {
      for size in plan.sizes { comparisons.append(try enumeration(size: size)) }
    }
    if plan.includes(.open) { comparisons.append(try opening()) }
    return comparisons
  }

  // MARK: - One key at a time

  /// Measures the operations on a key from its store to its removal, with new keys in every round.
  private func lifecycle(size: Int) throws -> [Comparison] {
    progress("\(size) bytes")
    let material = Material(payloadSize: size)
    // A round writes at most 16 MiB, because otherwise it would measure the disk's queue.
    let count = max(min(plan.operations, (16 << 20) / max(size, 1)), 4)
    func directory(_ name: String) -> FilePath { plan.directory.appending("\(name)-\(size)") }
    let contenders: [any Contender] = [
      try storeContender(in: directory("reference"), .reference),
      try RawContender(directory: directory("raw")),
      try storeContender(in: directory("checksummed"), .checksummed),
      try RawContender(directory: directory("raw+crc"), checksums: true),
      try storeContender(in: directory("shared"), .reference, sharing: .shared),
    ]
    let operations = Operation.lifecycle.filter { plan.includes($0) || $0.changesWhatIsThere }
    var times: [Operation: [[Double]]] = [:]
    for operation in operations { times[operation] = Array(repeating: [], count: contenders.count) }
    // The first round warms up.
    for round in 0...plan.rounds {
      let keys = Keys(from: 2 * round * count, count: count)
      let absentKeys = Keys(from: (2 * round + 1) * count, count: count)
      for operation in operations {
        let keys = operation == .loadAbsent ? absentKeys : keys
        for index in turns(of: contenders.count, in: round) {
          let duration = try time { try contenders[index].perform(operation, keys, material) }
          if round > 0 { times[operation]?[index].append(duration / Double(count)) }
        }
      }
    }
    return operations.filter(plan.includes).flatMap { operation in
      [(0, 1), (2, 1), (2, 3), (4, 0)].compactMap { store, baseline in
        // Without a payload to checksum, the two baselines are the same.
        guard let times = times[operation], baseline != 3 || operation.movesPayload else { return nil }
        return Comparison(
          operation: operation, size: size, store: contenders[store].name, baseline: contenders[baseline].name,
          storeTimes: times[store], baselineTimes: times[baseline])
      }
    }
  }

  /// Returns a store on a directory that has all subdirectories, as a cache has after some use.
  private func storeContender(
    in directory: FilePath, _ format: BlobStore.RecordFormat, sharing: BlobStore.Sharing = .exclusive
  ) throws -> StoreContender {
    _ = try RawContender(directory: directory)
    return try StoreContender(directory: directory, format: format, sharing: sharing)
  }

  // MARK: - Many records

  /// Both sides read one directory and change nothing.
  private func enumeration(size: Int) throws -> Comparison {
    progress("enumerating records of \(size) bytes")
    let directory = plan.directory.appending("enumerate-\(size)")
    let keys = Keys(from: 0, count: 2000)
    let raw = try RawContender(directory: directory)
    try raw.populate(keys, payloadSize: size)
    let store = try StoreContender(directory: directory, format: .reference)
    let material = Material(payloadSize: 0)
    return try compare(
      Comparison(operation: .enumerate, size: size, store: store.name, baseline: raw.name),
      perOperation: keys.raw.count,
      { try store.perform(.enumerate, keys, material) }, { try raw.perform(.enumerate, keys, material) })
  }

  /// Opens a store and loads a few keys, in a directory without other records and in one with very many.
  private func opening() throws -> Comparison {
    progress("making \(plan.manyRecords) records")
    let size = 128
    let few = 10
    let material = Material(payloadSize: 0)
    func store(of count: Int) throws -> StoreContender {
      let directory = plan.directory.appending("open-\(count)")
      try RawContender(directory: directory).populate(Keys(from: 0, count: count), payloadSize: size)
      return try StoreContender(directory: directory, format: .reference)
    }
    let small = try store(of: few)
    let large = try store(of: plan.manyRecords)
    let keys = Keys(from: 0, count: few)
    progress("opening directories")
    return try compare(
      Comparison(operation: .open, size: size, store: "\(plan.manyRecords) records", baseline: "\(few) records"),
      perOperation: few, { try large.perform(.open, keys, material) }, { try small.perform(.open, keys, material) })
  }

  private func compare(
    _ comparison: Comparison, perOperation count: Int, _ store: () throws -> Void, _ baseline: () throws -> Void
  ) throws -> Comparison {
    var comparison = comparison
    for round in 0...plan.rounds {
      var durations = [0.0, 0.0]
      for index in turns(of: 2, in: round) {
        durations[index] = try time { try index == 0 ? store() : baseline() } / Double(count)
      }
      guard round > 0 else { continue }
      comparison.storeTimes.append(durations[0])
      comparison.baselineTimes.append(durations[1])
    }
    return comparison
  }
}
