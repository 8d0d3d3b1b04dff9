internal import BlobCacheCommands

// Without the traits no engine client is compiled in, so the program reports how to build it.
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
