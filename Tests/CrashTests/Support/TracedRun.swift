import BlobStore
import FaultOperations
import Foundation
import TestSupport

/// A probe's run under `crashat`, and its outcome.
struct TracedRun {
  struct Call: Decodable {
    var number: Int
    var name: String
    var effect: String
    var path: String
    var second: String?
    var bytes: Int?
  }

  struct End: Decodable {
    var calls: Int
    var fired: Bool
    var timedOut: Bool
    var status: Int
    var otherStatus: Int
    var otherBlocked: Bool
  }

  /// The calls, if the run recorded them.
  var calls: [Call] = []
  var end: End
  /// The probe's report, or `nil` if the probe did not survive to write it.
  var report: ProbeReport?
  /// The reports of the other command's probes, in order.
  var others: [ProbeReport?] = []

  struct NoLog: Error {
    let status: Int32
    let log: String
  }

  init(
    _ scenario: Scenario, _ fault: Fault, in workspace: Workspace, plant: String? = nil, listsCalls: Bool = false,
    others: Int = 0
  ) throws {
    let log = workspace.path("log")
    let result = workspace.path("result")
    try? FileManager.default.removeItem(atPath: result)  // An earlier run may have left it.
    let command = Self.probe(scenario, workspace, result: result, plant: plant)
    let status = try ChildProcess.spawn(
      [FaultTools.crashat, "--root", workspace.path("cache"), "--log", log, "--timeout", "30"] + fault.arguments
        + ["--"] + command)
    let lines = try Data(contentsOf: URL(filePath: log)).split(separator: UInt8(ascii: "\n"))
    let decoder = JSONDecoder()
    guard let last = lines.last, let end = try? decoder.decode(End.self, from: last) else {
      throw NoLog(status: status, log: String(decoding: lines.last ?? Data(), as: UTF8.self))
    }
    self.end = end
    if listsCalls { calls = try lines.dropLast().map { try decoder.decode(Call.self, from: $0) } }
    report = Self.report(result)
    self.others = (0..<others).map { Self.report(Self.otherResult(workspace, $0)) }
  }

  private static func report(_ file: String) -> ProbeReport? {
    guard let data = FileManager.default.contents(atPath: file) else { return nil }
    return try? JSONDecoder().decode(ProbeReport.self, from: data)
  }

  static func otherResult(_ workspace: Workspace, _ index: Int) -> String { workspace.path("other-result-\(index)") }

  /// A probe's command line.
  static func probe(
    _ scenario: Scenario, _ workspace: Workspace, result: String, timeoutMilliseconds: Int = 5000,
    plant: String? = nil
  ) -> [String] {
    [
      FaultTools.probe, workspace.path("cache"), "--now", String(Scenario.now), "--durability",
      scenario.durability.rawValue, "--timeout", String(timeoutMilliseconds), "--warms-up",
      String(StartState.warm.contains(scenario.start)), "--result", result,
    ] + (plant.map { ["--plant", $0] } ?? []) + scenario.operation.arguments
  }

  /// Returns the arguments as a shell command. They contain no character that needs more quoting.
  static func shellLine(_ arguments: [String]) -> String {
    arguments.map { "'\($0)'" }.joined(separator: " ")
  }
}
