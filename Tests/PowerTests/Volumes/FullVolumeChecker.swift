import BlobStore
import FaultOperations
import SystemPackage
import TestSupport

/// Runs operations on a volume through shortages, and records their results.
struct FullVolumeChecker {
  private let volume: Volume
  private let shortage: Shortage
  private let packs: Bool
  private let plant: String?
  private let keys = ["subject", "su-1", "a", "other", "elsewhere"]
  private var chosen: VolumeOperations
  private var worker: Worker
  private var expected = DirectoryState()
  private var isShort = false
  private(set) var operations = 0
  private(set) var failures = 0
  private(set) var violations: [String] = []

  /// - Parameter packs: A Boolean value that indicates whether small records are stored in packs.
  init(
    _ fileSystem: Volume.FileSystem, _ shortage: Shortage, packs: Bool = false, seed: UInt64, plant: String? = nil
  ) throws {
    volume = try shortage.volume(fileSystem)
    self.shortage = shortage
    self.packs = packs
    self.plant = plant
    let byteCounts = packs ? VolumeOperations.mostlyPacked : VolumeOperations.files
    chosen = VolumeOperations(keys: keys, byteCounts: byteCounts, seed: seed)
    worker = try Worker(volume.cache, .automatic, packs: packs, plant: plant)
  }

  /// Runs operations with free space, during a shortage, and with free space again.
  mutating func runCycle(_ number: Int) throws {
    let durability = BlobStore.Durability.allCases[number % BlobStore.Durability.allCases.count]
    // Every second cycle starts with a new process, and the others continue with the process of the previous cycle.
    if number % 2 == 0 { try restart(durability) }
    try follow((0..<12).map { _ in chosen.next() } + [.store("subject", PayloadName("there", 3000), locks: .one)])
    try change(durability, shortage.begin)
    isShort = true
    try expectFailure { .store("new-\(number)-\($0)", PayloadName("new", 200_000)) }
    try follow(keys.map { .load($0, touching: false) })
    try follow((0..<12).map { _ in chosen.next() })
    try follow([
      .load("subject", touching: true), .remove("other"), .collect(evicting: false), .collect(evicting: true),
    ])
    isShort = false
    try change(durability, shortage.end)
    try follow(keys.map { .store($0, PayloadName("again-\(number)", 5000)) } + [.lock("a"), .unlock("a")])
    try follow([.collect(evicting: number % 3 == 0)])
  }

  private mutating func restart(_ durability: BlobStore.Durability) throws {
    worker.kill()
    worker = try Worker(volume.cache, durability, packs: packs, plant: plant)
  }

  private mutating func change(_ durability: BlobStore.Durability, _ change: (Volume) throws -> Void) throws {
    // A volume with files that are open for writing cannot be remounted read-only.
    if shortage == .readOnly { worker.kill() }
    try change(volume)
    if shortage == .readOnly { try restart(durability) }
  }

  // MARK: - Operations

  /// Repeats an operation until it fails, because the first ones may reuse space of the recycling bin, or empty it.
  private mutating func expectFailure(_ operation: (Int) -> FaultOperation) throws {
    let before = failures
    for number in 0..<64 where failures == before { try follow([operation(number)]) }
    if failures == before { note("\(operation(63)) should have failed") }
  }

  private mutating func follow(_ all: [FaultOperation]) throws {
    for operation in all { try follow(operation) }
    let found = try inspect()
    if found.keys != expected.keys { note("\(found.keys), not \(expected.keys)") }
    if !found.temporary.isEmpty { note("left behind: \(found.temporary)") }
    if !found.unreadable.isEmpty { note("unreadable: \(found.unreadable)") }
    expected = found
  }

  private mutating func follow(_ operation: FaultOperation) throws {
    operations += 1
    guard let result = worker.run(operation) else {
      note("\(operation): the worker is dead: \(worker.death)")
      try restart(.automatic)
      expected = try inspect()
      return
    }
    if case .load(let key, touching: true) = operation, isShort {
      try judgeTouch(of: key, operation, result)
    } else if result.outcome == .failed {
      try judgeFailure(of: operation, result)
    } else {
      expected = state(after: operation, result)
    }
  }

  private mutating func state(after operation: FaultOperation, _ result: OperationResult) -> DirectoryState {
    var next = expected
    for key in Set(keys).union(expected.keys.keys).union([operation.key].compactMap(\.self)).sorted() {
      let steps = OperationModel.steps(operation, on: key, in: expected[key], isDisturbed: false)
      guard let step = steps.first(where: { $0.result == nil || $0.result == result.essence }) else {
        note("\(operation) of \(expected[key]) answers \(result)")
        continue
      }
      next.keys[key] = step.state == .absent ? nil : step.state
    }
    return next
  }

  /// A load returns the blob whether its touch finds space or not.
  private mutating func judgeTouch(of key: String, _ operation: FaultOperation, _ result: OperationResult) throws {
    let steps = OperationModel.steps(operation, on: key, in: expected[key], isDisturbed: true)
    let found = try inspect()[key]
    if !steps.contains(.init(state: found, result: result.essence)) {
      note("\(operation) of \(expected[key]) answers \(result) and leaves \(found)")
    }
    expected.keys[key] = found == .absent ? nil : found
  }

  private mutating func judgeFailure(of operation: FaultOperation, _ result: OperationResult) throws {
    failures += 1
    let isTyped = result.errno.map { shortage.errors.contains(Errno(rawValue: $0)) } ?? false
    if !isShort || !isTyped || !mayFail(operation) { note("\(operation) fails: \(result)") }
    let found = try inspect()
    if found.keys != expected.keys {
      // A sync that fails after the change is reported.
      let after = state(after: operation, OperationResult(.done))
      let isChanged = result.message?.contains("fsync") ?? false
      if !isChanged || found.keys != after.keys { note("\(operation) failed, and left \(found.keys)") }
      expected = found
    }
  }

  /// Returns whether an operation may fail; operations that need no space must not.
  private func mayFail(_ operation: FaultOperation) -> Bool {
    switch operation {
    case .store, .storePieces, .storeVisibly, .storeAtLimit: true
    case .load, .verify: false
    case .remove, .removeAll, .collect: shortage == .readOnly
    // btrfs writes a header to another block. A changed packed record is stored again, in a durable chunk or as a file.
    case .touch, .lock, .unlock, .quarantine: shortage == .readOnly || volume.fileSystem == .btrfs || packs
    }
  }

  private func inspect() throws -> DirectoryState {
    var settings = StoreSettings(directory: FilePath(volume.cache))
    settings.packs = packs
    return try DirectoryState(inspecting: settings)
  }

  private mutating func note(_ violation: String) {
    let place = "\(volume.fileSystem)\(packs ? ", packs" : "")"
    violations.append("\(place), \(shortage)\(isShort ? ", short" : ""): \(violation)")
  }
}
