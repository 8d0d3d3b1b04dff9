import Foundation
import TestSupport
import Testing

/// The files in Tools/systemd, checked by the tools that read them.
@Suite(.timeLimit(.minutes(30))) struct UnitFileTests {
  private static let units = Checkout.url("Tools/systemd")
  private static let analyzer = "/usr/bin/systemd-analyze"
  private static var canAnalyze: Bool { FileManager.default.isExecutableFile(atPath: analyzer) }

  /// Returns copies that use the program of the current build.
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
    // Complaints about the machine's other units are ignored.
    let complaints = run.error.split(separator: "\n").filter { $0.contains("blobcache") }
    #expect(complaints == [])
    #expect(run.status == 0)
  }

  /// An exposure of 0 is the best and 10 the worst; above 2, a restriction of the service was lost.
  @Test(
    .enabled(if: canAnalyze, "systemd-analyze is not installed"),
    arguments: ["blobcache-collect.service", "blobcache-collect@.service", "blobcache-serve.service"])
  func theServicesAreKeptIn(unit: String) async throws {
    let directory = try copies()
    let run = try await Tool().execute(
      [Self.analyzer, "security", "--offline=yes", "--threshold=20", "--no-pager", directory.url(unit).path])
    // Versions before 250 cannot check files.
    guard !run.error.contains("unrecognized option") else { return }
    #expect(run.status == 0, "\(run.text)")
  }

  @Test func theExampleIsAConfiguration() async throws {
    let run = try await Tool().run(
      arguments: ["collect", "--once", "--dry-run", "--config", Self.units.appending(path: "collect.json").path])
    // The directories of the configuration do not exist.
    #expect(run.status == 2)
    #expect(run.error.contains("/var/cache/blobcache/covers"))
  }

  /// The tool accepts every command of the units and the cron table.
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
