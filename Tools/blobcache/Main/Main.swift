internal import BlobCacheCommands

/// The program. Its functions are in the library of commands, so that the fuzzer can call them.
@main struct Main {
  static func main() {
    BlobCacheTool.main()
  }
}
