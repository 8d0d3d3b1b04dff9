import BlobStore
import Foundation
import SystemPackage
import Testing

/// A server process on a temporary directory, at a port that the system chooses.
final class ServerProcess: @unchecked Sendable {
  /// The parent directory of the cache, which is removed at the end.
  let directory: URL
  let root: URL
  let port: UInt16
  let address: String
  private let process: Process
  /// The file for standard error, which cannot block the server as a full pipe would.
  private let errors: URL
  /// A pipe for standard error that nobody reads.
  private let stalledErrors: Pipe?

  static var executable: URL { Bundle.main.bundleURL.appending(path: "blobcache-serve") }

  init(
    _ options: [String] = [], listen: String = "127.0.0.1:0", descriptors: Int? = nil, user: Int? = nil,
    isForDirectory: Bool = true, stallsErrors: Bool = false
  ) throws {
    directory = FileManager.default.temporaryDirectory.appending(path: "blobcache-serve-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    root = directory.appending(path: "cache")
    process = Process()
    process.executableURL = Self.executable
    process.arguments = (isForDirectory ? [root.path] : []) + ["--listen", listen] + options
    if let descriptors {
      process.executableURL = URL(filePath: "/bin/sh")
      process.arguments =
        ["-c", "ulimit -n \(descriptors) && exec \"$0\" \"$@\"", Self.executable.path] + (process.arguments ?? [])
    }
    if let user {
      try FileManager.default.setAttributes([.ownerAccountID: user], ofItemAtPath: directory.path)
      process.executableURL = URL(filePath: "/usr/bin/env")
      process.arguments =
        ["setpriv", "--reuid=\(user)", "--clear-groups", Self.executable.path] + (process.arguments ?? [])
    }
    let output = Pipe()
    errors = directory.appending(path: "errors")
    try Data().write(to: errors)
    process.standardOutput = output
    stalledErrors = stallsErrors ? Pipe() : nil
    if let stalledErrors {
      process.standardError = stalledErrors
    } else {
      process.standardError = try FileHandle(forWritingTo: errors)
    }
    try process.run()
    var line = Data()
    while line.last != UInt8(ascii: "\n") {
      let byte = try output.fileHandleForReading.read(upToCount: 1) ?? Data()
      guard !byte.isEmpty else { throw Failure("it does not say where it listens") }
      line.append(byte)
    }
    let text = String(decoding: line, as: UTF8.self)
    if listen.hasPrefix("unix:") {
      (port, address) = (0, listen)
      return
    }
    guard let match = text.firstMatch(of: /^serving .* at (https?:\/\/[0-9.]+:(\d+)\/)\n$/),
      let port = UInt16(match.2)
    else { throw Failure("it says \(text)") }
    self.port = port
    address = String(match.1)
  }

  deinit {
    kill()
    try? FileManager.default.removeItem(at: directory)
  }

  func send(_ signal: Int32) { Foundation.kill(process.processIdentifier, signal) }

  func kill() {
    guard process.isRunning else { return }
    send(SIGKILL)
    process.waitUntilExit()
  }

  func status() -> Int32 {
    process.waitUntilExit()
    return process.terminationStatus
  }

  /// Returns a store on the directory, as another program would open it.
  func store() throws -> BlobStore { try BlobStore(directory: root.path) }

  func connect(receiveBuffer: Int32? = nil) throws -> Connection {
    try Connection(port: port, receiveBuffer: receiveBuffer)
  }

  #if os(Linux)
    /// Returns the resident memory of the server in bytes.
    func residentBytes() throws -> Int {
      let text = try String(contentsOfFile: "/proc/\(process.processIdentifier)/statm", encoding: .utf8)
      let pages = text.split(separator: " ").dropFirst().first.flatMap { Int($0) }
      guard let pages else { throw Failure("no memory in \(text)") }
      return pages * Int(sysconf(Int32(_SC_PAGESIZE)))
    }
  #endif

  /// Waits until standard error contains a text.
  func waitForError(_ text: String) throws {
    let end = ContinuousClock.now + .seconds(60)
    while try !errorText.contains(text) {
      guard ContinuousClock.now < end else { throw Failure("it has not said \(text), but \(try errorText)") }
      usleep(10_000)
    }
  }

  var errorText: String { get throws { String(decoding: try Data(contentsOf: errors), as: UTF8.self) } }

  /// Returns the names of unfinished files.
  func temporaryFiles() -> [String] {
    let walk = FileManager.default.enumerator(atPath: root.path)
    return walk?.compactMap { $0 as? String }.filter { $0.contains(".tmp-") } ?? []
  }

  /// Overwrites bytes in the payload of each record with a prefix, packed or not.
  ///
  /// - Returns: The number of records.
  func damageRecords(prefix: String) throws -> Int {
    let entries = Array(try store().records(prefix: prefix))
    for entry in entries {
      let file = try FileHandle(forUpdating: root.appending(path: entry.file))
      // The position after the header and a packed record's name. The chunk layout: Spec/PackFormat.md.
      let begin = entry.packed.map { 4096 + 1024 * (64 + 4 * 512) + $0.chunk * 1_032_192 + $0.offset } ?? 0
      try file.seek(toOffset: UInt64(begin) + 150)
      try file.write(contentsOf: Data("damaged".utf8))
      try file.close()
    }
    return entries.count
  }
}

struct Failure: Error, CustomStringConvertible {
  let description: String

  init(_ description: String) { self.description = description }
}

func run(_ command: [String]) throws -> (status: Int32, output: String, errors: String) {
  let process = Process()
  process.executableURL = URL(filePath: command[0])
  process.arguments = Array(command.dropFirst())
  let files = try (0..<2).map { _ in
    let url = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
    try Data().write(to: url)
    return url
  }
  defer { for file in files { try? FileManager.default.removeItem(at: file) } }
  process.standardOutput = try FileHandle(forWritingTo: files[0])
  process.standardError = try FileHandle(forWritingTo: files[1])
  try process.run()
  process.waitUntilExit()
  let texts = try files.map { String(decoding: try Data(contentsOf: $0), as: UTF8.self) }
  return (process.terminationStatus, texts[0], texts[1])
}
