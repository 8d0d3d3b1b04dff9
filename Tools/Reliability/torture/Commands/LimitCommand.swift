internal import ArgumentParser
internal import BlobRecord
internal import BlobStore
internal import Foundation
internal import SystemPackage

/// Stores from several processes as fast as possible, with the same limit in each. The directory must stay within the
/// limit and its slack at all times.
struct LimitCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "limit",
    abstract: "Store from many processes into a directory with a limit, and watch its size.",
    discussion: """
      Prints one object of JSON. Exit status 0: the directory never held more than the limit and a fifth of it, at most 16 MiB, \
      and ended within it; 1: not so.
      """)

  @Option(help: "Processes.") var processes = 4
  @Option(help: "Blobs that each process stores.") var operations = 500
  @Option(help: "Bytes of each blob.") var bytes = 100_000
  @Option(help: "Bytes that the directory may hold.") var sizeLimit: Int64 = 4 << 20
  @Option(help: "A directory to make.") var directory: String
  @Option(help: .hidden) var worker: Int?

  private struct Report: Codable {
    var type = "limit"
    var stores: Int
    var failures: Int
    var bound: Int64
    var largestBytes: Int64
    var lastBytes: Int64
    var looks: Int
    var evicted: Int64
    var passes: Int64
    var seconds: Double
  }

  func run() throws {
    var configuration = BlobStore.Configuration()
    configuration.packing = .off
    configuration.durability = .none
    configuration.limits.size = sizeLimit
    configuration.limits.freeSpaceFloor = 0
    // Waiting for space is not a failure in this test.
    configuration.access.lockTimeout = .seconds(60)
    do {
      if worker == nil, FileManager.default.fileExists(atPath: directory) {
        throw TortureFailure("\(directory) exists already")
      }
      let store = try BlobStore(directory: .init(directory), configuration: configuration)
      if let worker { return try work(worker, store) }
      try coordinate(store)
    } catch let error as ExitCode {
      throw error
    } catch {
      writeError("\(error)")
      throw ExitCode(2)
    }
  }

  private func work(_ worker: Int, _ store: BlobStore) throws {
    let payload = Data(repeating: UInt8(truncatingIfNeeded: worker), count: bytes)
    var failures = 0
    for operation in 0..<operations {
      do {
        try store.store(payload, for: BlobKey("\(worker) \(operation)"))
      } catch {
        writeError("\(error)")
        failures += 1
      }
    }
    if failures > 0 { throw ExitCode(1) }
  }

  private func coordinate(_ store: BlobStore) throws {
    let began = TortureClock.nanoseconds
    let children = try (0..<processes).map { number in
      try ChildProcess(arguments: [
        "limit", "--worker", "\(number)", "--operations", "\(operations)", "--bytes", "\(bytes)",
        "--size-limit", "\(sizeLimit)", "--directory", directory,
      ])
    }
    var largest: Int64 = 0
    var looks = 0
    while !children.map({ $0.poll() }).allSatisfy({ $0 }) {
      largest = max(largest, try recordBytes())
      looks += 1
      TortureClock.sleep(milliseconds: 1)
    }
    let last = try store.collect(Self.patient).bytesAfter
    let statistics = try store.statistics()
    let report = Report(
      stores: processes * operations, failures: children.count { $0.exitStatus != 0 },
      bound: sizeLimit + min(sizeLimit / 5, 16 << 20), largestBytes: largest, lastBytes: last, looks: looks,
      evicted: statistics.evicted, passes: statistics.passes, seconds: Double(TortureClock.nanoseconds - began) / 1e9)
    print(String(decoding: try JSONEncoder().encode(report), as: UTF8.self))
    guard report.failures == 0, largest <= report.bound, last <= sizeLimit else { throw ExitCode(1) }
  }

  private static var patient: BlobStore.CollectionOptions {
    var options = BlobStore.CollectionOptions()
    options.waitsForOther = .seconds(60)
    return options
  }

  /// Returns the bytes of record files that existed simultaneously: listed files that exist after the listing.
  private func recordBytes() throws -> Int64 {
    guard let paths = FileManager.default.enumerator(atPath: directory) else {
      throw TortureFailure("\(directory) cannot be listed")
    }
    var files: [(path: String, number: UInt64)] = []
    for case let path as String in paths where !path.split(separator: "/").contains(where: { $0.hasPrefix(".") }) {
      if let file = recordFile(path) { files.append((path, file.number)) }
    }
    return files.reduce(0) { sum, file in
      guard let now = recordFile(file.path), now.number == file.number else { return sum }
      return sum + now.bytes
    }
  }

  /// - Returns: The attributes, or `nil` if the file was removed since the listing or is not a regular file.
  private func recordFile(_ path: String) -> (number: UInt64, bytes: Int64)? {
    guard let attributes = try? FileManager.default.attributesOfItem(atPath: directory + "/" + path),
      attributes[.type] as? FileAttributeType == .typeRegular, let number = attributes[.systemFileNumber] as? UInt64,
      let bytes = attributes[.size] as? Int64
    else { return nil }
    return (number, bytes)
  }
}
