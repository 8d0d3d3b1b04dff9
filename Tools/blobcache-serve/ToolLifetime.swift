#if Server
  internal import ArgumentParser
  internal import BlobCacheCommands
  internal import BlobCacheServer

  /// The lifetime of a build tool's products as users write it: `bazel=30d`, `ccache=never`.
  struct ToolLifetime {
    let tool: BuildTool
    let lifetime: DefaultTimeToLive
  }

  extension ToolLifetime: WrittenValue {
    static var forms: String {
      let tools = BuildTool.allCases.map(\.rawValue).joined(separator: ", ")
      return "TOOL=D, such as bazel=30d or ccache=never, where TOOL is one of \(tools)"
    }

    init?(argument: String) {
      let parts = argument.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      guard parts.count == 2, let tool = BuildTool(rawValue: String(parts[0])),
        let lifetime = DefaultTimeToLive(argument: String(parts[1]))
      else { return nil }
      self.tool = tool
      self.lifetime = lifetime
    }
  }
#endif
