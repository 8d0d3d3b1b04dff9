internal import ArgumentParser
internal import BlobRecord
internal import BlobStore
internal import SystemPackage

struct TouchCommand: DirectorySubcommand {
  static let configuration = CommandConfiguration(
    commandName: "touch", abstract: "Move the time of the last access of blobs without a time to live to now.")

  static let examples = [
    Example("Have a blob live on as if it were used now", "blobcache touch cache album/42"),
    Example("The same of several, for a program to read", "blobcache touch cache album/42 album/43 --json"),
  ]

  @Argument(help: ArgumentHelp("The cache's directory.", valueName: "dir"))
  var directory: FilePath

  @Argument(help: ArgumentHelp("The keys.", valueName: "key"))
  var keys: [String]

  @OptionGroup var options: DirectoryOptions

  func answer(_ output: inout Output) throws -> Answer {
    let store = try options.storeToWrite(at: directory)
    let results = store.touch(keys.map { BlobKey($0) })
    return KeyResults(operation: "touch", done: "touched", store: store, options: options).print(results, to: &output)
  }
}
