public import ArgumentParser
internal import BlobRecord
public import BlobStore
internal import SystemPackage

struct RemoveCommand: DirectorySubcommand {
  static let configuration = CommandConfiguration(
    commandName: "remove", abstract: "Remove blobs: expired, locked and damaged ones too.")

  @Argument(help: ArgumentHelp("The cache's directory.", valueName: "dir"))
  var directory: FilePath

  @Argument(help: ArgumentHelp("The keys.", valueName: "key"))
  var keys: [String] = []

  @Flag var scope: BlobStore.RemovalScope?

  @Flag(
    help: ArgumentHelp(
      "Unlink the files, and all files that wait to be overwritten: they may hold earlier blobs of the keys."))
  var purge = false

  @OptionGroup var options: DirectoryOptions

  func validate() throws {
    if keys.isEmpty, scope == nil { throw ValidationError("Give keys, or --all, --locked or --unlocked.") }
    if !keys.isEmpty, let scope { throw ValidationError("--\(scope.rawValue) takes no keys.") }
  }

  func answer(_ output: inout Output) throws -> Answer {
    let store = try options.store(at: directory)
    if let scope {
      let report = try store.removeAll(scope)
      if purge { try store.emptyRecyclingBin() }
      print(report, of: scope, to: &output)
      return .done
    }
    let blobKeys = keys.map { BlobKey($0) }
    let results = try purge ? store.purge(blobKeys) : store.remove(blobKeys)
    return KeyResults(operation: "remove", done: "removed", store: store, options: options).print(results, to: &output)
  }

  private func print(_ report: BlobStore.RemovalReport, of scope: BlobStore.RemovalScope, to output: inout Output) {
    if options.json {
      var object = JSONObject(type: "removal")
      object.add("directory", directory.string)
      object.add("scope", scope.rawValue)
      object.add("files", report.files)
      object.add("bytes", report.bytes)
      output.line(object)
    } else if !options.quiet {
      let files = report.files == 1 ? "1 file" : "\(report.files) files"
      output.line("\(directory.string.printable): \(files) removed, \(ByteCount(report.bytes))")
    }
  }
}

extension BlobStore.RemovalScope: EnumerableFlag {
  public static func help(for value: BlobStore.RemovalScope) -> ArgumentHelp? {
    switch value {
    case .all: "Remove everything, damaged files too, instead of keys."
    case .locked: "Remove all locked blobs."
    case .unlocked: "Remove all blobs that are not locked."
    }
  }
}
