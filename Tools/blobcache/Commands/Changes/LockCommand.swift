internal import ArgumentParser
internal import BlobRecord
internal import BlobStore
internal import SystemPackage

struct LockCommand: DirectorySubcommand {
  static let configuration = CommandConfiguration(
    commandName: "lock", abstract: "Lock blobs: each lives until it is unlocked as often as it was locked.")

  static let examples = [
    Example("Keep a blob whatever its age and the limits", "blobcache lock cache album/42"),
    Example("Two blobs at once", "blobcache lock cache album/42 album/43"),
  ]

  @Argument(help: ArgumentHelp("The cache's directory.", valueName: "dir"))
  var directory: FilePath

  @Argument(help: ArgumentHelp("The keys.", valueName: "key"))
  var keys: [String]

  @OptionGroup var options: DirectoryOptions

  func answer(_ output: inout Output) throws -> Answer {
    let store = try options.storeToWrite(at: directory)
    let results = store.lock(keys.map { BlobKey($0) })
    return KeyResults(operation: "lock", done: "locked", store: store, options: options).print(results, to: &output)
  }
}
