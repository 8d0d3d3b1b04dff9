import Foundation
import SystemPackage
import Workbench

/// Python's diskcache in a process that performs the same turns, and measures and returns their times.
///
/// Requests and responses are lines of JSON; `diskcache_rounds.py` is the other side.
final class DiskCacheContender: Contender {
  private struct Request: Encodable {
    let work: String
    let keys: [String]
    /// The index of the payload for each key.
    let payloads: [Int]
    let leaving: [String]
    let threads: Int
    let verify: Bool
  }

  private struct Answer: Decodable {
    let microseconds: Double?
    let error: String?
  }

  let peer = Peer.diskCache
  private let process = Process()
  private let requests = Pipe()
  private let answers = Pipe()
  private var unread = Data()

  init(directory: FilePath, _ payloads: Payloads, _ python: Python) throws {
    // A write to an exited process must fail with an error instead of a signal.
    signal(SIGPIPE, SIG_IGN)
    let file = directory.string + ".payloads"
    try payloads.file.write(to: URL(fileURLWithPath: file))
    process.executableURL = URL(fileURLWithPath: python.interpreter)
    process.arguments = [python.script, directory.string, file, "\(payloads.size)"]
    process.standardInput = requests
    process.standardOutput = answers
    try process.run()
  }

  deinit { end() }

  func perform(_ work: Work, _ batch: Batch, threads: Int) throws -> Double {
    let request = Request(
      work: work.rawValue, keys: batch.entries.map(\.name), payloads: batch.entries.map(\.payloadNumber),
      leaving: batch.leaving.map(\.name), threads: threads, verify: batch.isVerified)
    return try ask(request)
  }

  func fill(_ entries: [Entry], notesUses: Bool) throws { _ = try perform(.store, Batch(entries), threads: 1) }

  func close() throws {
    _ = try ask(Request(work: "close", keys: [], payloads: [], leaving: [], threads: 1, verify: false))
  }

  private func ask(_ request: Request) throws -> Double {
    try requests.fileHandleForWriting.write(contentsOf: try JSONEncoder().encode(request) + Data("\n".utf8))
    let answer = try JSONDecoder().decode(Answer.self, from: line())
    if let error = answer.error { throw BenchmarkFailure("diskcache: \(error)") }
    guard let microseconds = answer.microseconds else { throw BenchmarkFailure("diskcache has answered nothing") }
    return microseconds
  }

  private func line() throws -> Data {
    while true {
      if let end = unread.firstIndex(of: UInt8(ascii: "\n")) {
        let line = unread[..<end]
        unread = Data(unread[unread.index(after: end)...])
        return line
      }
      let more = answers.fileHandleForReading.availableData
      guard !more.isEmpty else { throw BenchmarkFailure("diskcache's process has ended") }
      unread += more
    }
  }

  private func end() {
    // The process exits at the end of its input. Closing fails only if the pipe is already closed.
    try? requests.fileHandleForWriting.close()
    process.waitUntilExit()
  }
}
