internal import BlobCacheCommands

// Without the traits there is no engine to speak to, and whoever runs the program is told how to come by one.
#if Remote && Tool
  internal import ArgumentParser

  @main struct Main {
    static func main() async {
      ProcessSetup.prepare()
      await RemoteTool.main()
    }
  }
#else
  @main struct Main {
    static func main() { SiblingProgram.remote.refuse() }
  }
#endif
