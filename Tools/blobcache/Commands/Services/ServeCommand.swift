internal import ArgumentParser

/// Replaces the process with the program `blobcache-serve` and passes all arguments.
struct ServeCommand: Subcommand {
  static let configuration = CommandConfiguration(
    commandName: "serve", abstract: "Serve a directory over HTTP, by the program blobcache-serve.",
    usage: "blobcache serve <dir> [<options>]",
    discussion: """
      The program is built by itself: swift build -c release --traits Server --product blobcache-serve. It lies beside \
      blobcache, or on the PATH, and gets all arguments: blobcache-serve --help lists them.
      """)

  static let examples = [
    Example("Serve a directory on this machine", "blobcache serve cache"),
    Example("Serve it at a port that is free", "blobcache serve cache --listen 127.0.0.1:0"),
  ]

  @Argument(
    parsing: .allUnrecognized,
    help: ArgumentHelp("The cache's directory, and options of blobcache-serve.", valueName: "dir"))
  var arguments: [String]

  func answer(_ output: inout Output) throws -> Answer {
    try SiblingProgram.server.become(with: arguments, for: "serve")
  }
}
