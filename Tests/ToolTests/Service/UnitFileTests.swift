import Foundation
import TestSupport
import Testing

/// What lies in Tools/systemd, held against the tools that read it.
@Suite(.timeLimit(.minutes(30))) struct UnitFileTests {
  private static let units = Checkout.url("Tools/systemd")
  private static let analyzer = "/usr/bin/systemd-analyze"
  private static var canAnalyze: Bool { FileManager.default.isExecutableFile(atPath: analyzer) }

  /// Copies whose program is where this build has it.
  private func copies() throws -> TemporaryDirectory {
    let directory = try TemporaryDirectory()
    for name in try FileManager.default.contentsOfDirectory(atPath: Self.units.path) where name.contains(".") {
      let text = try String(contentsOf: Self.units.appending(path: name), encoding: .utf8)
      try text.replacing("/usr/local/bin/blobcache", with: Tool.executable.path)
        .write(to: directory.url(name), atomically: false, encoding: .utf8)
    }
    return directory
  }

  @Test(
    .enabled(if: canAnalyze, "systemd-analyze is not installed"),
    arguments: [
      ["blobcache-collect.service"], ["blobcache-serve.service"],
      ["blobcache-collect@var-cache-covers.service", "blobcache-collect@var-cache-covers.timer"],
    ])
  func systemdFindsNothingWrong(units: [String]) async throws {
    let directory = try copies()
    let run = try await Tool().execute([Self.analyzer, "verify"] + units.map { directory.url($0).path })
    // Its complaints about the machine's own units do not matter here.
    let complaints = run.error.split(separator: "\n").filter { $0.contains("blobcache") }
    #expect(complaints == [])
    #expect(run.status == 0)
  }

  /// 0 is no exposure, 10 all of it; above 2, something that confines the service has been lost.
  @Test(
    .enabled(if: canAnalyze, "systemd-analyze is not installed"),
    arguments: ["blobcache-collect.service", "blobcache-collect@.service", "blobcache-serve.service"])
  func theServicesAreKeptIn(unit: String) async throws {
    let directory = try copies()
    let run = try await Tool().execute(
      [Self.analyzer, "security", "--offline=yes", "--threshold=20", "--no-pager", directory.url(unit).path])
    // Versions before 250 cannot look at files.
    guard !run.error.contains("unrecognized option") else { return }
    #expect(run.status == 0, "\(run.text)")
  }

  @Test func theExampleIsAConfiguration() async throws {
    let run = try await Tool().run(
      arguments: ["collect", "--once", "--dry-run", "--config", Self.units.appending(path: "collect.json").path])
    // Its directories are not there.
    #expect(run.status == 2)
    #expect(run.error.contains("/var/cache/blobcache/covers"))
  }

  /// Every command in the units and the table of cron is one that the tool understands.
  @Test func theCommandsAreUnderstood() async throws {
    let tool = try Tool()
    try await tool.store("1", for: "key")
    try tool.create("collect.json", #"{"every": "6m", "directories": {"\#(tool.directory.path)/cache": {}}}"#)
    var commands: [[String]] = []
    for name in ["blobcache-collect.service", "blobcache-collect@.service", "blobcache.crontab"] {
      let text = try String(contentsOf: Self.units.appending(path: name), encoding: .utf8)
      for match in text.matches(of: /(?m)^[^#]*\/usr\/local\/bin\/blobcache (collect .*)$/) {
        commands.append(
          match.1.replacing("/etc/blobcache/", with: "").replacing("%f", with: "cache").split(separator: " ").map(
            String.init))
      }
    }
    #expect(commands.count == 3)
    for var command in commands {
      if !command.contains("--once") { command.insert("--once", at: 1) }
      #expect(try await tool.run(arguments: command).status == 0, "\(command)")
    }
  }
}
