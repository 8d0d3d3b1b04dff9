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
  #if canImport(Darwin)
    internal import Darwin
  #elseif canImport(Glibc)
    internal import Glibc
  #elseif canImport(Musl)
    internal import Musl
  #elseif canImport(Android)
    internal import Android
  #endif

  @main struct Main {
    static func main() {
      ProcessSetup.prepare()
      StandardError.report(
        "this blobcache-remote was built without the trait Remote; "
          + "build it by: swift build -c release --traits Tool,Remote --product blobcache-remote")
      exit(2)
    }
  }
#endif
