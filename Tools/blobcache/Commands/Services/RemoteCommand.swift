internal import ArgumentParser

/// Replaces the process with the program `blobcache-remote` and passes all arguments.
struct RemoteCommand: Subcommand {
  static let configuration = CommandConfiguration(
    commandName: "remote", abstract: "Look at a remote tier, by the program blobcache-remote.",
    usage: "blobcache remote check|list|get|put|remove|lifecycle <url> [<options>]",
    discussion: """
      The program is built by itself: swift build -c release --traits Tool,Remote --product blobcache-remote. It lies beside \
      blobcache, or on the PATH, and gets all arguments: blobcache-remote --help lists them.
      """)

  static let examples = [
    Example("Try an engine, and see what it can do", "blobcache remote check 's3://bucket/covers?region=eu-central-1'"),
    Example(
      "List the records that all machines share", "blobcache remote list https://cache.example/v1/blobs --limit 20"),
  ]

  @Argument(
    parsing: .allUnrecognized,
    help: ArgumentHelp("What to do, the URL of the tier, and options of blobcache-remote.", valueName: "arguments"))
  var arguments: [String]

  func answer(_ output: inout Output) throws -> Answer {
    try SiblingProgram.remote.become(with: arguments, for: "remote")
  }
}
