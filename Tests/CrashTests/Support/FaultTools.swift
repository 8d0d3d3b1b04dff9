import Foundation
import TestSupport
import Testing

/// The programs of the fault tests, which the build places next to the tests.
enum FaultTools {
  static let crashat = Programs.built("crashat").path
  static let probe = Programs.built("faultprobe").path

  /// The long form runs all cases; the short one runs a sample if all would take more than a minute.
  static let isLong = ProcessInfo.processInfo.environment["BLOBCACHE_TEST_LONG"] == "1"

  /// The reason why the tests cannot run, or `nil` if they can. Containers may forbid tracing.
  static let obstacle: String? = {
    #if os(Linux)
      for tool in [crashat, probe] where !FileManager.default.isExecutableFile(atPath: tool) {
        return "\(tool) is not built"
      }
      guard let workspace = try? Workspace() else { return "no directory for temporary files" }
      let log = workspace.path("log")
      do {
        let status = try ChildProcess.spawn([crashat, "--root", workspace.path("root"), "--log", log, "--", "true"])
        let text = (try? String(contentsOfFile: log, encoding: .utf8)) ?? ""
        return status == 0 && text.contains("\"end\"") ? nil : "crashat ends with status \(status)"
      } catch {
        return "crashat cannot be run: \(error)"
      }
    #else
      return "needs ptrace and seccomp of Linux"
    #endif
  }()
}

extension Trait where Self == ConditionTrait {
  /// Skips a test visibly if processes cannot be traced.
  static var whereTracingWorks: Self {
    .enabled(if: FaultTools.obstacle == nil, Comment(rawValue: FaultTools.obstacle ?? ""))
  }
}
