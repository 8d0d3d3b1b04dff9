internal import BlobCacheCommands

/// The program. All it can do is in the library of its commands, where the fuzzer reaches it too.
@main struct Main {
  static func main() {
    BlobCacheTool.main()
  }
}
