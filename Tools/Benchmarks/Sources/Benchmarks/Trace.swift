import BlobStore
import SystemPackage
import Workbench

/// One operation, again and again, for strace and for whatever counts allocations to look at.
///
/// What is prepared does not depend on the number of operations, so the difference between two runs is that of the
/// operations alone. What is written to the standard error before and after them marks the place in a trace.
struct Trace {
  /// Keys that are prepared. Operations that a key can take again and again begin anew after the last.
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
    // The first operation opens the directory; the others are what is looked at.
    try contender.perform(.store, warmUp, material)
    switch operation {
    // Made with ttl 0, or locked, as what is populated is not.
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
