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
        "this blobcache-serve was built without the trait Server; "
          + "build it by: swift build -c release --traits Server --product blobcache-serve")
      exit(2)
    }
  }
#endif
