import BlobRecord
import BlobStore
import Foundation
import SystemPackage
import TestSupport

/// A random directory that no store has written, with records of every age and kind, damage, temporary and foreign
/// files, and a model of a collection.
struct RandomCache {
  private static let names: [BlobKey] = ["a", "ab", "abc", "abd", "b", "key 1", "key 2", "image.png", "é", "zz-top"]

  let directory: TemporaryDirectory
  let root: FilePath
  private(set) var model: StoreModel
  private var generator: SeededGenerator

  init(seed: UInt64) throws {
    directory = try TemporaryDirectory(inMemory: true)
    root = directory.path.appending("cache")
    generator = SeededGenerator(seed: seed)
    let now = UnixTime(seconds: 1_700_000_000)
    var configuration = BlobStore.Configuration()
    configuration.packing = .off
    configuration.layout = .init(
      naming: [.encoded, .verbatim].randomElement(using: &generator)!,
      arrangement: RecordArrangement.allCases.randomElement(using: &generator)!)
    configuration.format = [.checksummed, .reference].randomElement(using: &generator)!
    configuration.durability = .none
    configuration.access.recordsConfiguration = false
    configuration.expiry.defaultTimeToLive = .seconds([60, 600, 100_000].randomElement(using: &generator)!)
    configuration.limits.freeSpaceFloor = 0
    configuration.limits.collectsOnStore = false
    configuration.now = { now }
    if Bool.random(using: &generator) {
      configuration.limits.size = Int64.random(in: 1...20_000, using: &generator)
      configuration.limits.eviction = Bool.random(using: &generator) ? .oldest : .frequency
    }
    model = StoreModel(configuration, now: now)
    for key in Self.names where chance(70) { addRecord(key) }
    for number in 0..<3 {
      if chance(20) { model.foreign[BlobKey(".hidden-\(number)")] = bytes(upTo: 100) }
      // With the flat arrangement, this would be the name of a record.
      if configuration.layout.arrangement != .flat, chance(20) {
        model.foreign[BlobKey("misplaced-\(number)")] = bytes(upTo: 100)
      }
      if chance(20) { model.temporary[BlobKey(".tmp-\(number)")] = bytes(upTo: 300) }
    }
    try write()
  }

  func store() throws -> BlobStore {
    try BlobStore(directory: root, configuration: model.configuration)
  }

  /// Collects, and returns the differences of the report and the files from the model.
  mutating func mismatches() throws -> [String] {
    var mismatches: [String] = []
    if model.configuration.limits.size == nil {
      // With a limit, the choice of evicted records is not determined.
      mismatches += try compare(.collect(dryRun: true), with: model.perform(.collect(dryRun: true)))
    }
    let answer = try StoreOperation.collect(dryRun: false).perform(on: store()).answer
    let remaining = Set(try contents(of: root).keys)
    let (expected, faults) = model.collect(leaving: remaining, limit: model.configuration.limits.size)
    return try mismatches + faults + Self.difference(answer, .collected(expected)) + differences()
  }

  private func compare(_ operation: StoreOperation, with expected: StoreAnswer) throws -> [String] {
    try Self.difference(operation.perform(on: store()).answer, expected) + differences()
  }

  private static func difference(_ answer: StoreAnswer, _ expected: StoreAnswer) -> [String] {
    answer == expected ? [] : ["answered \(answer)\n  expected \(expected)"]
  }

  private func differences() throws -> [String] {
    let found = try contents(of: root)
    let expected = model.files
    return Set(found.keys).union(expected.keys).filter { found[$0] != expected[$0] }.map {
      "\($0): \(found[$0].map { "\($0.count) bytes" } ?? "absent")"
    }
  }
}

// MARK: - Random content

extension RandomCache {
  private mutating func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &generator) < percent }

  private mutating func bytes(upTo count: Int) -> Data {
    Data(generator.bytes(Int.random(in: 0...count, using: &generator)))
  }

  private mutating func addRecord(_ key: BlobKey) {
    let payload = bytes(upTo: 4000)
    var header = RecordHeader(refCount: 0, updateTime: 0, payloadSize: UInt64(payload.count))
    header.ttl = [0, 0, 0, 1, 60, 600, 86_400, .max].randomElement(using: &generator)!
    header.refCount = chance(75) ? 0 : [1, 2, .max].randomElement(using: &generator)!
    header.updateTime = randomUpdateTime(ttl: header.ttl)
    let path = model.path(of: key)
    if model.configuration.format == .checksummed {
      header.payloadChecksum = CRC32.checksum(of: payload.bytes)
      header.keyDigest = path.digest
    }
    var record = StoreModel.Record(payload: payload, header: header)
    if chance(20) { record.damage = payload.isEmpty || chance(50) ? .header : .payload }
    record.isAged = chance(50)
    model.records[key] = record
    if !path.subdirectory.isEmpty { model.subdirectories.insert(BlobKey(path.subdirectory)) }
  }

  /// Returns an update time, mostly close to the expiry.
  private mutating func randomUpdateTime(ttl: UInt64) -> UInt64 {
    let now = model.now.seconds
    let lifetime = ttl > 0 ? Int64(clamping: min(ttl, 10_000_000)) : model.defaultExpiration
    let age: Int64 =
      switch Int.random(in: 0..<10, using: &generator) {
      case ..<6: lifetime + Int64.random(in: -1...1, using: &generator)
      case ..<8: Int64.random(in: 0...1_000_000, using: &generator)
      case 8: now
      default: -1000
      }
    return UInt64(max(0, now - age))
  }
}

// MARK: - Writing

extension RandomCache {
  private func write() throws {
    let manager = FileManager.default
    try manager.createDirectory(atPath: root.string, withIntermediateDirectories: true)
    try manager.setAttributes([.posixPermissions: 0o700], ofItemAtPath: root.string)
    let now = Double(model.now.seconds)
    let aged = now - Double(model.defaultExpiration) - 1
    for (path, bytes) in model.files {
      try write(bytes, to: path, modified: now)
    }
    for (key, record) in model.records where record.isAged {
      try write(StoreModel.bytes(of: record), to: BlobKey(model.path(of: key).relative), modified: aged)
    }
  }

  private func write(_ bytes: Data, to path: BlobKey, modified: Double) throws {
    let file = root.string + "/" + path.string
    let manager = FileManager.default
    let parent = FilePath(file).removingLastComponent().string
    try manager.createDirectory(atPath: parent, withIntermediateDirectories: true)
    try bytes.write(to: URL(filePath: file))
    try manager.setAttributes([.modificationDate: Date(timeIntervalSince1970: modified)], ofItemAtPath: file)
  }
}
