internal import BlobRecord
internal import BlobStore
internal import FaultOperations
internal import SystemPackage

#if canImport(FoundationEssentials)
  internal import FoundationEssentials
#else
  internal import Foundation
#endif
#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#elseif canImport(Android)
  internal import Android
#endif

/// Performs one operation on a directory and reports its result. The fault tests run it under `crashat`.
///
/// Exit status: 0 done, 1 the answer is no, 2 it could not be done, 64 invalid arguments.
@main
enum FaultProbe {
  static func main() {
    guard let arguments = ProbeArguments(Array(CommandLine.arguments.dropFirst())) else {
      writeError(ProbeArguments.usage)
      exit(64)
    }
    do {
      if arguments.isService { exit(try serve(arguments)) }
      exit(try arguments.isInspection ? inspect(arguments) : operate(arguments))
    } catch {
      writeError("faultprobe: \(error)\n")
      exit(2)
    }
  }

  private static func inspect(_ arguments: ProbeArguments) throws -> CInt {
    let state = try DirectoryState(inspecting: arguments.settings)
    for key in state.keys.keys.sorted() {
      try write(InspectionLine(type: "key", name: key, state: state[key]), to: nil)
    }
    for (type, names) in [
      ("temporary", state.temporary), ("quarantined", state.quarantined), ("foreign", state.foreign),
      ("unreadable", state.unreadable),
    ] {
      for name in names { try write(InspectionLine(type: type, name: name, state: nil), to: nil) }
    }
    return 0
  }

  /// Performs operations one by one with a single store, like a long-running program.
  private static func serve(_ arguments: ProbeArguments) throws -> CInt {
    let settings = arguments.settings
    let store = try settings.makeStore { $0.limits.collectsOnStore = false }
    while let line = readLine() {
      guard let operation = FaultOperation(arguments: line.split(separator: " ").map(String.init)) else { return 64 }
      let result: OperationResult
      if let planted = arguments.plant?.run(operation, settings) {
        result = planted
      } else if case .collect(evicting: true) = operation {
        // Its limit requires a different configuration.
        result = operation.run(settings)
      } else {
        result = operation.run(store)
      }
      try write(result, to: nil)
    }
    return 0
  }

  private static func operate(_ arguments: ProbeArguments) throws -> CInt {
    guard let operation = arguments.operation else { return 64 }
    let start = ContinuousClock.now
    var duration: Duration = .zero
    var held = HeldResources()
    let look = {
      duration = start.duration(to: .now)
      held = HeldResources(below: arguments.settings.directory.string)
    }
    var planted: OperationResult?
    if let plant = arguments.plant {
      planted = plant.run(operation, arguments.settings)
      look()
    }
    let result = planted ?? operation.run(arguments.settings, thenWhileOpen: look)
    let (seconds, attoseconds) = duration.components
    let report = ProbeReport(
      result: result, held: held, seconds: Double(seconds) + Double(attoseconds) / 1e18,
      steps: arguments.lifespan?.steps)
    try write(report, to: arguments.resultFile)
    switch result.outcome {
    case .done: return 0
    case .notFound, .notLocked, .damaged: return 1
    case .busy, .failed: return 2
    }
  }

  private static func write(_ value: some Encodable, to file: String?) throws {
    let encoder = JSONEncoder()
    encoder.outputFormatting = .sortedKeys
    let line = try encoder.encode(value) + Data("\n".utf8)
    if let file {
      try line.write(to: URL(filePath: file))
    } else {
      try FileDescriptor.standardOutput.writeAll(line)
    }
  }

  private static func writeError(_ text: String) {
    // A failure to write to standard error cannot be reported.
    _ = try? FileDescriptor.standardError.writeAll(text.utf8)
  }
}

/// One line of an inspection.
private struct InspectionLine: Encodable {
  var type: String
  var name: String
  var state: KeyState?
}
