internal import BlobCacheCommands

// Without the trait no server is compiled in, so the program reports how to build it.
#if Server
  internal import ArgumentParser

  @main struct Main {
    static func main() async {
      ProcessSetup.prepare()
      // `token` is not a subcommand of `ServeTool`, because that accepts a directory of any name.
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
