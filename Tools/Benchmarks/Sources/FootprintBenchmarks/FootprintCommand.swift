import ArgumentParser
import BlobStore
import Foundation
import SystemPackage
import Workbench

@main
struct FootprintCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "benchmark footprint",
    abstract: "Measures the disk space, memory, threads and descriptors of caches.",
    discussion: """
      Each blob has 100 bytes. The first rows are for one process that stores all blobs, the others for processes that \
      each store 10. Memory, threads and descriptors are those of a process that waits, in addition to the same program \
      without a cache; of several processes, the largest. Disk space is that of the directory after a collection.

      Exit status: 0 done, 1 it could not be measured, 64 usage.
      """)

  @Option(help: "Where directories are made. (default: TMPDIR, or .build)")
  var directory: String?

  @Option(help: "The largest number of blobs.")
  var records = 1_000_000

  @Option(help: "The largest number of processes.")
  var processes = 64

  @Option(name: .customLong("work"), help: .hidden)
  var workDirectory: String?

  @Option(parsing: .upToNextOption, help: .hidden)
  var keys: [Int] = []

  @Flag(help: .hidden)
  var packed = false

  @Flag(help: .hidden)
  var kept = false

  @Flag(help: .hidden)
  var dictionary = false

  func validate() throws {
    guard records > 0, processes > 0 else { throw ValidationError("records and processes are above zero") }
    if workDirectory != nil, keys.count != 2 || keys[0] > keys[1] { throw ValidationError("keys are a range") }
  }

  func run() async throws {
    if let workDirectory {
      return try await FootprintWorker(
        directory: FilePath(workDirectory), isPacked: packed, keepsAllInMemory: kept, isDictionary: dictionary,
        keys: keys[0]..<keys[1]
      ).run()
    }
    let workspace = try Workspace(in: directory)
    var rows: [[String]] = []
    let cases =
      [1, 100, 10_000, 1_000_000].filter { $0 <= records }.map { (processes: 1, records: $0) }
      + [4, 16, 64].filter { $0 <= processes }.map { (processes: $0, records: 10 * $0) }
    for isPacked in [false, true] {
      for (processes, records) in cases {
        let directory = workspace.path.appending("\(isPacked ? "packs" : "files")-\(processes)-\(records)")
        rows.append(try Self.row(directory, isPacked: isPacked, processes: processes, records: records))
        print(rows[rows.count - 1].joined(separator: "  "))
        try FileManager.default.removeItem(atPath: directory.string)
      }
    }
    let titles = ["", "processes", "blobs", "disk", "per blob", "memory", "threads", "descriptors"]
    print(TextTable(titles: titles, rows: rows, texts: [0]))
    let entry = try Self.bytesPerEntry(in: workspace, isDictionary: false)
    let least = try Self.bytesPerEntry(in: workspace, isDictionary: true)
    print("memory tier, besides the payload: \(entry) bytes for each entry; in a Dictionary<String, Data>: \(least)")
  }

  /// Returns the memory that a blob in memory takes besides its payload, for a key of 24 bytes.
  private static func bytesPerEntry(in workspace: Workspace, isDictionary: Bool) throws -> Int64 {
    let count = 200_000
    let bytes = try [1, count].map { count in
      let worker = try FootprintWorker(
        directory: workspace.path.appending("memory-\(isDictionary)-\(count)"), isPacked: true,
        keepsAllInMemory: true, isDictionary: isDictionary, keys: 0..<count
      ).start()
      let usage = try ProcessUsage(of: worker)
      try worker.end()
      return usage.anonymousBytes
    }
    return (bytes[1] - bytes[0]) / Int64(count) - Int64(FootprintWorker.payloadByteCount)
  }

  private static func row(_ directory: FilePath, isPacked: Bool, processes: Int, records: Int) throws -> [String] {
    let each = records / processes
    let workers = try (0..<processes).map { number in
      try FootprintWorker(directory: directory, isPacked: isPacked, keys: each * number..<each * (number + 1)).start()
    }
    let usages = try workers.map { try ProcessUsage(of: $0) }
    for worker in workers { try worker.end() }
    try BlobStore(directory: directory).collect()
    let disk = try AllocatedBytes(below: directory).all
    func largest<Value: Comparable>(_ value: (ProcessUsage) -> Value) -> Value { usages.map(value).max()! }
    return [
      isPacked ? "packs" : "files", "\(processes)", "\(records)", ByteFormat.text(disk),
      ByteFormat.text(disk / Int64(records)), ByteFormat.text(largest(\.residentBytes)), "\(largest(\.threads))",
      "\(largest(\.descriptors))",
    ]
  }
}

/// Formats bytes in binary units.
enum ByteFormat {
  static func text(_ bytes: Int64) -> String {
    switch bytes {
    case ..<10_240: "\(bytes) B"
    case ..<(10 << 20): String(format: "%.1f KiB", Double(bytes) / 1024)
    default: String(format: "%.1f MiB", Double(bytes) / Double(1 << 20))
    }
  }
}
