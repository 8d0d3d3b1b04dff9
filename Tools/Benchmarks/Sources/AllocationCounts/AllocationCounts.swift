import ArgumentParser
import BlobRecord
import BlobStore
import CAllocationCount
import Foundation
import MemoryCache
import SystemPackage

/// Counts the allocations of the hot paths, and compares them with the documented counts.
@main struct AllocationCounts: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "benchmark allocations",
    abstract: "Counts the allocations of each operation, and compares them with Spec/Performance.md.",
    discussion: "Exit status: 0 all are as the document says, 1 one is not, 2 could not count.")

  @Argument(help: "Spec/Performance.md.") var document: String

  func run() throws {
    guard allocation_count_is_available() else {
      print("allocations cannot be counted here: that needs the GNU C library")
      return
    }
    let expected = try documented()
    let counts = try counted()
    var isAsDocumented = true
    for (operation, count) in counts {
      let note =
        expected[operation] == count
        ? "" : "  but the document says \(expected[operation].map(String.init) ?? "nothing")"
      if !note.isEmpty { isAsDocumented = false }
      print("\(operation): \(count)\(note)")
    }
    for operation in expected.keys.sorted() where !counts.contains(where: { $0.operation == operation }) {
      print("\(operation): in the document, and not counted")
      isAsDocumented = false
    }
    guard isAsDocumented else { throw ExitCode(1) }
  }

  /// Returns the table rows whose second column is a number: `| operation | count | ... |`.
  private func documented() throws -> [String: Int] {
    guard let text = FileManager.default.contents(atPath: document) else {
      print("\(document) cannot be read")
      throw ExitCode(2)
    }
    var counts: [String: Int] = [:]
    for line in String(decoding: text, as: UTF8.self).split(separator: "\n") where line.hasPrefix("|") {
      let cells = line.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
      guard cells.count > 1, let count = Int(cells[1]) else { continue }
      counts[cells[0]] = count
    }
    return counts
  }

  private func counted() throws -> [(operation: String, count: Int)] {
    let directory = FileManager.default.temporaryDirectory.appending(path: "blobcache-allocations-\(UUID().uuidString)")
    defer { try? FileManager.default.removeItem(at: directory) }
    var configuration = BlobStore.Configuration()
    // Measures records that have a file each; `packedCounts` measures packed records.
    configuration.packing = .off
    configuration.durability = .none
    // All keys share one subdirectory, which stays open, because opening another one allocates.
    configuration.layout.arrangement = .prefix
    let recycler = try BlobStore(directory: FilePath(directory.path), configuration: configuration)
    configuration.recycling = .off
    let store = try BlobStore(directory: FilePath(directory.path), configuration: configuration)
    let (small, large) = (Data(repeating: 1, count: 128), Data(repeating: 1, count: 65_536))
    let (key, middleKey, largeKey, absent): (BlobKey, BlobKey, BlobKey, BlobKey) = (
      "a key of thirty-two bytes, or so", "a key of thirty-two bytes, 4 KiB", "a key of thirty-two bytes, large",
      "a key of thirty-two bytes, unused"
    )
    let news = (0..<Self.repetitions).map { BlobKey("a key of thirty-two bytes, no. \($0)") }
    // The first store in each subdirectory creates it, before anything is counted.
    for key in news + [key, largeKey] { try store.store(small, for: key, ttl: .seconds(1000)) }
    try store.store(Data(repeating: 1, count: 4096), for: middleKey, ttl: .seconds(1000))
    try store.store(large, for: largeKey, ttl: .seconds(1000))
    let memory = MemoryCache<BlobKey, Data>()
    memory.setValue(small, forKey: key, cost: 1)
    var next = 0
    func new() -> BlobKey {
      next = (next + 1) % news.count
      return news[next]
    }
    return try [
      ("load, 128 bytes", count { _ = try store.load(key) }),
      ("load, 4 KiB", count { _ = try store.load(middleKey) }),
      ("load, 64 KiB", count { _ = try store.load(largeKey) }),
      ("load, absent", count { _ = try store.load(absent) }),
      ("contains", count { _ = try store.contains(key) }),
      ("header", count { _ = try store.header(for: key) }),
      ("touch", count { _ = try store.touch(key) }),
      ("lock", count { _ = try store.lock(key) }),
      ("unlock", count { _ = try store.unlock(key) }),
      ("store, replaced", count { try store.store(small, for: key, ttl: .seconds(1000)) }),
      ("remove", count { _ = try store.remove(new()) }),
      ("store, new", count { try store.store(small, for: new()) }),
      // The first of these operations creates the recycling bin.
      ("store, replaced, recycled", count { try recycler.store(small, for: key, ttl: .seconds(1000)) }),
      ("remove, recycled", count { _ = try recycler.remove(new()) }),
      ("store, new, recycled", count { try recycler.store(small, for: new()) }),
      ("memory hit", count { _ = memory.value(forKey: key) }),
      ("memory set, replaced", count { memory.setValue(small, forKey: key, cost: 1) }),
    ] + packedCounts(in: FilePath(directory.path).appending("packed"))
  }

  private func packedCounts(in directory: FilePath) throws -> [(operation: String, count: Int)] {
    var configuration = BlobStore.Configuration()
    configuration.packing = .upTo(8192)
    configuration.durability = .none
    configuration.layout.arrangement = .prefix
    let store = try BlobStore(directory: directory, configuration: configuration)
    let small = Data(repeating: 1, count: 128)
    let (key, locked): (BlobKey, BlobKey) = ("a key of thirty-two bytes, or so", "a key of thirty-two bytes, locked")
    let news = (0..<Self.repetitions).map { BlobKey("a key of thirty-two bytes, no. \($0)") }
    for key in news + [key] { try store.store(small, for: key) }
    try store.store(small, for: locked, locks: .one)
    var next = 0
    func new() -> BlobKey {
      next = (next + 1) % news.count
      return news[next]
    }
    return try [
      ("packed load, 128 bytes", count { _ = try store.load(key) }),
      ("packed load, absent", count { _ = try store.load("a key of thirty-two bytes, unused") }),
      ("packed contains", count { _ = try store.contains(key) }),
      ("packed header", count { _ = try store.header(for: key) }),
      ("packed touch", count { _ = try store.touch(key) }),
      ("packed lock", count { _ = try store.lock(locked) }),
      ("packed unlock", count { _ = try store.unlock(locked) }),
      ("packed store, replaced", count { try store.store(small, for: key) }),
      ("packed remove", count { _ = try store.remove(new()) }),
      ("packed store, new", count { try store.store(small, for: new()) }),
    ]
  }

  private static let repetitions = 101

  /// Returns the median of the counts, because a table grows occasionally.
  private func count(_ operation: () throws -> Void) rethrows -> Int {
    var counts: [UInt64] = []
    for _ in 0..<Self.repetitions {
      let before = allocation_count()
      try operation()
      counts.append(allocation_count() - before)
    }
    return Int(counts.sorted()[counts.count / 2])
  }
}
