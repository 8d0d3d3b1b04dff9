import BlobStore
import SystemPackage
import Workbench

/// Repeats one operation, for inspection by strace or by an allocation counter.
///
/// The preparation does not depend on the number of operations, so the difference between two runs is the cost of the
/// additional operations. Marks on standard error delimit the operations in a trace.
struct Trace {
  /// The number of prepared keys. Repeatable operations start over after the last key.
  static let keyCount = 4096

  let operation: Operation
  let size: Int
  let count: Int
  let format: BlobStore.RecordFormat

  func run(in directory: FilePath, mark: (String) -> Void) throws {
    let material = Material(payloadSize: size)
    let all = Keys(from: 0, count: Self.keyCount)
    let raw = try RawContender(directory: directory)
    if operation != .store && operation != .loadAbsent { try raw.populate(all, payloadSize: size) }
    let contender = try StoreContender(directory: directory, format: format)
    let warmUp = Keys(from: Self.keyCount, count: 1)
    // The first operation opens the directory, so that the trace contains only the measured operations.
    try contender.perform(.store, warmUp, material)
    switch operation {
    // Populated records have no ttl of 0 and no lock, so these operations prepare their records by the store.
    case .touch, .loadTouching: try contender.perform(.store, all, material)
    case .unlock: try contender.perform(.lock, all, material)
    default: break
    }
    let remainder = all.prefix(count % Self.keyCount)
    mark("begin")
    for _ in 0..<count / Self.keyCount { try contender.perform(operation, all, material) }
    try contender.perform(operation, remainder, material)
    mark("end")
  }
}
