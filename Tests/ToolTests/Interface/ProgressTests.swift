import Foundation
import TestSupport
import Testing

@testable import BlobCacheCommands

#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#elseif canImport(Android)
  import Android
#elseif canImport(Darwin)
  import Darwin
#endif

@Suite(.timeLimit(.minutes(30))) struct ProgressTests {
  // MARK: The line

  private func line(files: Int64, total: Int64?, seconds: Int64 = 10) -> ProgressLine {
    var line = ProgressLine(label: "/var/cache/covers", total: total, bytesName: "freed")
    line.files = files
    line.bytes = 1_200_000
    line.elapsed = .seconds(seconds)
    return line
  }

  @Test func aLineShowsFilesRateBytesAndTimeLeft() {
    #expect(
      line(files: 1000, total: 4000).text(width: 100)
        == "/var/cache/covers [========                         ]  25% 1000 files, 1.2 MB freed, 100/s, 30s left")
    #expect(line(files: 1000, total: nil).text(width: 79) == "/var/cache/covers 1000 files, 1.2 MB freed, 100/s")
    // The rate is unknown in the first second, and the remaining time once the estimated total is exceeded.
    #expect(line(files: 1, total: nil, seconds: 0).text(width: 79).hasSuffix(" 1 files, 1.2 MB freed"))
    #expect(line(files: 5000, total: 4000).text(width: 79).hasSuffix("]  99% 5000 files, 1.2 MB freed, 500/s"))
    #expect(line(files: 0, total: 0).text(width: 79).hasSuffix("0 files, 1.2 MB freed, 0/s"))
  }

  @Test(arguments: 0...130) func noLineIsLongerThanTheTerminal(width: Int) {
    for total in [nil, 1, 4000, .max] as [Int64?] {
      for files in [0, 3999, 123_456_789, .max] as [Int64] {
        let text = line(files: files, total: total).text(width: width)
        #expect(text.count <= width, "\(text)")
      }
    }
  }

  @Test func aTransferShowsBytesRateAndTimeLeft() {
    var line = TransferLine(label: "album/42", total: 2_000_000_000, bytes: 500_000_000, elapsed: .seconds(2))
    #expect(
      line.text(width: 90)
        == "album/42 [========                          ]  25% 500.0 MB of 2.0 GB, 250.0 MB/s, 6s left")
    line.bytes = 2_000_000_000
    #expect(line.text(width: 70).hasSuffix("] 100% 2.0 GB of 2.0 GB, 1.0 GB/s"))
    line.elapsed = .zero
    #expect(line.text(width: 70).hasSuffix("] 100% 2.0 GB of 2.0 GB"))
    let unknown = TransferLine(label: "album/42", total: nil, bytes: 1000, elapsed: .seconds(1))
    #expect(unknown.text(width: 70) == "album/42 1.0 KB, 1.0 KB/s")
  }

  @Test(arguments: 0...100) func noTransferIsLongerThanTheTerminal(width: Int) {
    for total in [nil, 0, 1, 4000, .max] as [Int64?] {
      for bytes in [0, 3999, .max] as [Int64] {
        let line = TransferLine(label: "/var/cache/covers", total: total, bytes: bytes, elapsed: .milliseconds(1))
        #expect(line.text(width: width).count <= width)
      }
    }
  }

  // MARK: On a terminal

  @Test(arguments: [["verify"], ["collect"], ["collect", "--dry-run"]])
  func aPersonSeesABarWhichIsGoneInTheEnd(subcommand: [String]) async throws {
    let tool = try Tool()
    for i in 0..<20 { try await tool.store("12345", for: "key\(i)") }
    let terminal = try PseudoTerminal(columns: 60)
    let run = try await tool.execute(
      [Tool.executable.path] + subcommand + ["cache"], environment: ["TERM": "xterm"], error: .handle(terminal.device))
    let shown = terminal.finish()
    #expect(run.status == 0)
    #expect(shown.contains("cache"), "\(shown)")
    #expect(shown.contains(" files, "))
    #expect(shown.hasSuffix("\r\u{1B}[K"))
    for line in shown.split(separator: "\r\u{1B}[K") { #expect(line.count < 60) }
  }

  @Test(arguments: [["--quiet"], []] as [[String]]) func nobodyElseSeesOne(options: [String]) async throws {
    let tool = try Tool()
    try await tool.store("12345", for: "key")
    let terminal = try PseudoTerminal(columns: 60)
    let run = try await tool.execute(
      [Tool.executable.path, "verify", "cache"] + options,
      environment: ["TERM": options.isEmpty ? "dumb" : "xterm"], error: .handle(terminal.device))
    #expect(run.status == 0)
    #expect(terminal.finish() == "")
    // A file is not a terminal.
    #expect(try await tool.run("verify", "cache").error == "")
  }
}

/// A pseudo terminal that the test reads.
final class PseudoTerminal {
  /// The end that programs write to.
  let device: FileHandle
  private let other: CInt

  struct Failure: Error {
    let errno: CInt
  }

  init(columns: UInt16) throws {
    var other: CInt = -1
    var device: CInt = -1
    var size = winsize(ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0)
    guard openpty(&other, &device, nil, nil, &size) == 0 else { throw Failure(errno: errno) }
    self.other = other
    self.device = FileHandle(fileDescriptor: device, closeOnDealloc: true)
  }

  deinit {
    close(other)
  }

  /// Returns the whole output, which the system buffers until it is read, up to some kilobytes.
  func finish() -> String {
    _ = fcntl(other, F_SETFL, O_NONBLOCK)
    var bytes: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 4096)
    while true {
      let count = read(other, &buffer, buffer.count)
      guard count > 0 else { break }
      bytes += buffer[..<count]
    }
    return String(decoding: bytes, as: UTF8.self)
  }
}
