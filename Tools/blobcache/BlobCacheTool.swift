public import ArgumentParser
internal import BlobRecord
internal import TextFormats

/// The command line tool `blobcache SUBCOMMAND`, specified in Spec/CommandLine.md.
public struct BlobCacheTool: ParsableCommand {
  public static let configuration = CommandConfiguration(
    commandName: "blobcache",
    abstract: "Inspect, use and maintain a directory of cached blobs.",
    discussion: """
      Results go to standard output, the rest to standard error. Exit status: 0 done, 1 the answer is no (absent, \
      damaged, not locked), 2 it could not be done, 64 wrong usage. After -- every argument is taken as it is, so \
      that any key can be given.

      Durations: 90, 90s, 10m, 6h, 30d, 1w. Sizes: 4096, 10MB, 512KiB, 2G (of 1024). Times: Unix seconds or ISO 8601.
      """,
    version: version,
    subcommands: subcommands)

  private static let subcommands: [any Subcommand.Type] = [
    StoreCommand.self, LoadCommand.self, TouchCommand.self, LockCommand.self, UnlockCommand.self, RemoveCommand.self,
    ExtendedDataCommand.self, ListCommand.self, UsageCommand.self, StatsCommand.self, DumpCommand.self,
    VerifyCommand.self,
    CollectCommand.self, ImportCommand.self, ConfigureCommand.self, ServeCommand.self, ViewCommand.self,
    RemoteCommand.self,
  ]

  /// The version of the package.
  private static let version = "0.9.0"

  public init() {}

  /// Runs the command line of the process and exits.
  public static func main() {
    ProcessSetup.prepare()
    do {
      try checkSubcommands(in: CommandLine.arguments.dropFirst())
      var command = try parseAsRoot()
      try command.run()
    } catch  where exitCode(for: error) == .success {
      // Help and version are results, so a failure to write them is an error.
      var output = Output()
      let message = fullMessage(for: error)
      if message == version { answerVersion(to: &output) } else { output.line(message + examples(endingHelp: message)) }
      output.flush()
    } catch {
      exit(withError: error)
    }
  }

  /// Prints the version, on a line without other text so that scripts can read it.
  ///
  /// On a terminal and in JSON the output also contains the library that computes checksums, because it determines
  /// the speed of large payloads.
  private static func answerVersion(to output: inout Output) {
    if CommandLine.arguments.contains("--json") {
      var object = JSONObject(type: "version")
      object.add("version", version)
      object.add("checksums", CRC32.library)
      output.line(object)
    } else {
      output.line(version)
      if output.isTerminal { output.line("checksums by \(CRC32.library)") }
    }
  }

  /// Returns the examples of the subcommand, because the parser cannot print a section at the end of its help.
  private static func examples(endingHelp message: String) -> String {
    let subcommand = subcommands.first { message.contains("\nUSAGE: blobcache \($0.configuration.commandName ?? "") ") }
    return subcommand.map { "\n" + Example.text($0.examples) } ?? ""
  }

  /// Rejects unknown subcommands, for which the parser would print the tool's help.
  private static func checkSubcommands(in arguments: ArraySlice<String>) throws {
    let names = arguments.first == "help" ? arguments.dropFirst() : arguments.prefix(1)
    let known = configuration.subcommands.map { $0.configuration.commandName } + ["help"]
    for name in names where !name.hasPrefix("-") && !known.contains(name) {
      throw ValidationError("There is no subcommand '\(name.printable)'.")
    }
  }
}
