internal import BlobCacheCommands

// Without the trait there is no server to build, and whoever runs the program is told how to come by one.
#if Server
  internal import ArgumentParser

  @main struct Main {
    static func main() async {
      ProcessSetup.prepare()
      // No subcommand of the other: that takes a directory of any name.
      if CommandLine.arguments.dropFirst().first == "token" {
        TokenTool.main(Array(CommandLine.arguments.dropFirst(2)))
      } else {
        await ServeTool.main()
      }
    }
  }
#else
  @main struct Main {
    static func main() { SiblingProgram.server.refuse() }
  }
#endif
