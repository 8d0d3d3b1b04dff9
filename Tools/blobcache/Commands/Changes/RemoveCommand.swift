public import ArgumentParser
internal import BlobRecord
public import BlobStore
internal import Locks
internal import SystemPackage
internal import TextFormats

struct RemoveCommand: DirectorySubcommand {
  static let configuration = CommandConfiguration(
    commandName: "remove", abstract: "Remove blobs: expired, locked and damaged ones too.")

  static let examples = [
    Example(
      "Remove a blob, and its earlier versions that wait to be overwritten", "blobcache remove cache album/42 --purge"),
    Example("Remove everything that is not locked", "blobcache remove cache --unlocked"),
  ]

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
    var configuration = try options.configuration(for: directory)
    if purge { configuration.recycling = .off }
    let store = try BlobStore(directory: directory, configuration: configuration)
    let answer = try scope.map { try remove($0, from: store, &output) } ?? removeKeys(from: store, &output)
    // Last, so that removals are printed even if this fails. The bin may contain earlier blobs of the keys.
    if purge { try store.emptyRecyclingBin() }
    return answer
  }

  private func removeKeys(from store: BlobStore, _ output: inout Output) -> Answer {
    let results = store.remove(keys.map { BlobKey($0) }, erasing: purge)
    return KeyResults(operation: "remove", done: "removed", store: store, options: options).print(results, to: &output)
  }

  private func remove(_ scope: BlobStore.RemovalScope, from store: BlobStore, _ output: inout Output) throws -> Answer {
    let removed = Lock(BlobStore.RemovalReport())
    var removal = BlobStore.RemovalOptions()
    removal.progress = { progress in removed.withLock { $0 = progress.removed } }
    do {
      let report = try store.removeAll(scope, removal)
      print(report, of: scope, to: &output)
      return report.files == 0 ? WrongDirectory.answer(directory, options) : .done
    } catch {
      let report = removed.withLock { $0 }
      if report.files > 0 { print(report, of: scope, to: &output) }
      throw error
    }
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
