#if Remote && Tool
  internal import ArgumentParser

  /// The command line tool for a remote engine and its records: Spec/CommandLine.md.
  struct RemoteTool: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "blobcache-remote", abstract: "Look at a remote tier, and change what is there.",
      discussion: """
        <url> names the engine and the namespace in it, as for blobcache serve --remote: s3://BUCKET/NAMESPACE, \
        https://HOST/PATH?namespace=NAMESPACE or valkeys://HOST:PORT?namespace=NAMESPACE. Keys and passwords belong \
        into the environment or a file, for all users see a command line.

        Exit status: 0 done, 1 the answer is no (absent, or the check found something wrong), 2 it could not be done, \
        64 wrong usage.
        """,
      subcommands: [
        CheckCommand.self, ListCommand.self, GetCommand.self, PutCommand.self, RemoveCommand.self,
        LifecycleCommand.self,
      ])
  }
#endif
