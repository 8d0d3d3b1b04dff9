internal import ArgumentParser

/// Replaces the process with the program `blobcache-serve` for one browser on this machine.
struct ViewCommand: Subcommand {
  static let configuration = CommandConfiguration(
    commandName: "view", abstract: "Look at a directory in a browser, by the program blobcache-serve.",
    usage: "blobcache view <dir> [<options>]",
    discussion: """
      Serves the directory at a free port of this machine, prints an address that works once, and opens it where there is \
      a screen. It ends by Ctrl-C. The program lies beside blobcache, or on the PATH: blobcache-serve --help lists its \
      options.
      """)

  static let examples = [
    Example("Look at a directory", "blobcache view cache"),
    Example("Look, and let nothing be changed", "blobcache view cache --read-only"),
  ]

  @Argument(
    parsing: .allUnrecognized,
    help: ArgumentHelp("The cache's directory, and options of blobcache-serve.", valueName: "dir"))
  var arguments: [String]

  func answer(_ output: inout Output) throws -> Answer {
    try SiblingProgram.server.become(with: ["--view"] + arguments, for: "view")
  }
}
