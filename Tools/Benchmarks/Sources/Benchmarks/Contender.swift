import BlobRecord
import BlobStore
import CRawFiles
import SystemPackage
import Workbench

/// An implementation of the measured operations, which works in a separate directory.
protocol Contender: AnyObject {
  /// The name in the report.
  var name: String { get }
  /// Performs an operation once for each key.
  func perform(_ operation: Operation, _ keys: Keys, _ material: Material) throws
}

/// Raw system calls only, with an optional CRC-32 pass over each payload.
final class RawContender: Contender {
  let name: String
  private let root: CInt
  private let checksums: Bool

  init(directory: FilePath, checksums: Bool = false) throws {
    name = checksums ? "raw+crc" : "raw"
    self.checksums = checksums
    root = raw_open_root(directory.string)
    try BenchmarkFailure.check(root, "opening \(directory)")
  }

  deinit { _ = raw_close(root) }

  func perform(_ operation: Operation, _ keys: Keys, _ material: Material) throws {
    let count = keys.raw.count
    switch operation {
    case .store, .replace:
      try check(raw_store(root, keys.raw, count, material.record, material.record.count, checksums), operation)
    case .load, .loadAbsent:
      let found = raw_load(root, keys.raw, count, checksums)
      try check(found, operation)
      try BenchmarkFailure.require(found == (operation == .load ? count : 0), "raw \(operation) found \(found) records")
    case .loadTouching:
      try check(raw_load(root, keys.raw, count, checksums), operation)
      try check(raw_rewrite_headers(root, keys.raw, count), operation)
    case .touch, .lock, .unlock:
      try check(raw_rewrite_headers(root, keys.raw, count), operation)
    case .remove:
      try check(raw_remove(root, keys.raw, count), operation)
    case .enumerate:
      let found = raw_enumerate(root)
      try check(found, operation)
      try BenchmarkFailure.require(found == count, "raw enumerate found \(found) of \(count) records")
    case .open, .collect, .collectKnown, .collectMemory, .evict, .loadMedian, .loadTail, .storeCold,
      .replaceRecycled, .removeRecycled, .churn:
      throw BenchmarkFailure("raw system calls do not \(operation)")
    }
  }

  private func check(_ result: some BinaryInteger, _ operation: Operation) throws {
    try BenchmarkFailure.check(result, "raw \(operation)")
  }

  func enumerated() throws -> Int {
    let found = raw_enumerate(root)
    try BenchmarkFailure.check(found, "raw enumerate")
    return Int(found)
  }

  /// Creates records with holes for payloads, for operations that do not read all payloads.
  func populate(_ keys: Keys, payloadSize: Int, age: Int = 0) throws {
    let header = Material.header(payloadSize: payloadSize, age: age)
    let result = raw_populate(root, keys.raw, keys.raw.count, header, header.count, UInt64(payloadSize))
    try BenchmarkFailure.check(result, "making \(keys.raw.count) records")
  }

  var fileSystem: String { String(cString: raw_file_system(root)) }
}

/// The store without durability, because raw system calls have none either. Locks that exclude other processes are
/// used only when they are measured.
final class StoreContender: Contender {
  let name: String
  private let store: BlobStore

  init(directory: FilePath, format: BlobStore.RecordFormat, sharing: BlobStore.Sharing = .exclusive) throws {
    name = sharing == .shared ? "shared" : format == .reference ? "reference" : "checksummed"
    var configuration = Self.configuration(format)
    configuration.access.sharing = sharing
    store = try BlobStore(directory: directory, configuration: configuration)
  }

  static func configuration(_ format: BlobStore.RecordFormat) -> BlobStore.Configuration {
    var configuration = BlobStore.Configuration()
    // Measures records that have a file each; PackBenchmarks measures packed records.
    configuration.packing = .off
    configuration.format = format
    // The raw calls use the same arrangement.
    configuration.layout.arrangement = .prefix
    configuration.durability = .none
    // Both sides create and unlink files; `--recycling` measures the recycling bin.
    configuration.recycling = .off
    // The clock advances with each reading, so records must not expire.
    configuration.expiry.defaultTimeToLive = .seconds(Int64.max)
    let clock = SteppingClock()
    configuration.now = { clock.next() }
    return configuration
  }

  func perform(_ operation: Operation, _ keys: Keys, _ material: Material) throws {
    switch operation {
    case .store:
      for key in keys.blob { try store.store(material.payload, for: key) }
    case .replace:
      for key in keys.blob { try store.store(material.payload, for: key, ttl: .seconds(Int64.max)) }
    case .load, .loadTouching:
      for key in keys.blob {
        let found = try store.load(key)?.payload.count
        try BenchmarkFailure.require(found == material.payload.count, "\(operation) missed \(key)")
      }
    case .loadAbsent:
      for key in keys.blob {
        let isAbsent = try store.load(key) == nil
        try BenchmarkFailure.require(isAbsent, "\(operation) found \(key)")
      }
    case .touch: try expectDone(operation, keys) { try store.touch($0) }
    case .lock: try expectDone(operation, keys) { try store.lock($0) }
    case .unlock: try expectDone(operation, keys) { try store.unlock($0) }
    case .remove: try expectDone(operation, keys) { try store.remove($0) }
    case .enumerate:
      let found = try store.records().reduce(into: 0) { count, entry in count += entry.state == .live ? 1 : 0 }
      try BenchmarkFailure.require(found == keys.blob.count, "enumerate found \(found) of \(keys.blob.count) records")
    case .open:
      for key in keys.blob {
        let store = try BlobStore(directory: store.directory, configuration: store.configuration)
        let isPresent = try store.load(key) != nil
        try BenchmarkFailure.require(isPresent, "open missed \(key)")
      }
    case .collect, .collectKnown, .collectMemory, .evict, .loadMedian, .loadTail, .storeCold,
      .replaceRecycled, .removeRecycled, .churn:
      throw BenchmarkFailure("\(operation) is of a whole directory")
    }
  }

  /// Loads one record without touching it.
  func measuredLoad(_ key: Keys, _ byteCount: Int) throws {
    let found = try store.load(key.blob[0], touching: false)?.payload.count
    try BenchmarkFailure.require(found == byteCount, "missed \(key.blob[0])")
  }

  private func expectDone(_ operation: Operation, _ keys: Keys, _ body: (BlobKey) throws -> BlobStore.Outcome) throws {
    for key in keys.blob {
      let outcome = try body(key)
      try BenchmarkFailure.require(outcome == .done, "\(operation) of \(key): \(outcome)")
    }
  }
}
