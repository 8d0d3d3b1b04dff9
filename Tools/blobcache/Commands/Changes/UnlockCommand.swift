internal import ArgumentParser
internal import BlobRecord
internal import BlobStore
internal import SystemPackage

struct UnlockCommand: DirectorySubcommand {
  static let configuration = CommandConfiguration(
    commandName: "unlock", abstract: "Take a lock off blobs.")

  static let examples = [
    Example("Take off the lock that was set last", "blobcache unlock cache album/42"),
    Example("Take off all there are", "blobcache unlock cache album/42 --force"),
  ]

  @Argument(help: ArgumentHelp("The cache's directory.", valueName: "dir"))
  var directory: FilePath

  @Argument(help: ArgumentHelp("The keys.", valueName: "key"))
  var keys: [String]

  @Flag(help: "Take all locks off.")
  var force = false

  @OptionGroup var options: DirectoryOptions

  func answer(_ output: inout Output) throws -> Answer {
    let store = try options.storeToWrite(at: directory)
    let results = store.unlock(keys.map { BlobKey($0) }, force: force)
    return KeyResults(operation: "unlock", done: "unlocked", store: store, options: options).print(results, to: &output)
  }
}
