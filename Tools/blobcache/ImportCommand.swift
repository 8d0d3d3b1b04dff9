public import ArgumentParser
internal import BlobRecord
public import BlobStore
internal import SystemPackage

struct ImportCommand: DirectorySubcommand {
  static let configuration = CommandConfiguration(
    commandName: "import", abstract: "Store every file of another directory, which stays as it is.",
    discussion: """
      A plain directory's files have their paths in it for keys; the directory is walked. Of PINCache's disk cache, \
      the keys are those it was used with, and objects keep what is left of their age limits. Links, other files than \
      regular ones and names that begin with a dot are passed over. The cache's directory is made if there is none.
      """)

  @Argument(help: ArgumentHelp("The cache's directory.", valueName: "dir"))
  var directory: FilePath

  @Argument(help: "The directory whose files are stored.")
  var source: FilePath

  @Option(help: ArgumentHelp("What lies in it.", valueName: "format"))
  var format = BlobStore.ImportFormat.files

  @Option(
    name: .customLong("ttl"),
    help: ArgumentHelp(
      "Time to live where the file has none; 0 or nothing for the default, counted from the last access.",
      valueName: "d"))
  var timeToLive: TimeSpan?

  @Flag(help: "Replace live blobs; else they stay, and the file is passed over.")
  var replace = false

  @OptionGroup var options: DirectoryOptions

  func answer(_ output: inout Output) throws -> Answer {
    let store = try options.storeToWrite(at: directory, creatingDirectory: true)
    let duration = timeToLive?.seconds == 0 ? nil : timeToLive?.duration
    let importOptions = BlobStore.ImportOptions(format: format, timeToLive: duration, replacing: replace)
    let report = try store.importFiles(from: source, importOptions) { print($0, to: &output) }
    print(report, to: &output)
    return report.failed > 0 ? .failed : .done
  }

  private func print(_ finding: BlobStore.ImportFinding, to output: inout Output) {
    if case .failed(_, let error) = finding { StandardError.report(Self.text(of: error)) }
    guard options.json else { return }
    var object = JSONObject(type: "importedFile")
    switch finding {
    case .imported(let file, let key, let byteCount):
      object.add(file, key, "done")
      object.add("payloadSize", byteCount)
    case .present(let file, let key): object.add(file, key, "present")
    case .expired(let file): object.add(file, nil, "expired")
    case .skipped(let file): object.add(file, nil, "skipped")
    case .failed(let file, let error):
      object.add(file, error.key, "failed")
      object.add("message", Self.text(of: error))
    }
    output.line(object)
  }

  private func print(_ report: BlobStore.ImportReport, to output: inout Output) {
    if options.json {
      var object = JSONObject(type: "import")
      object.add("directory", directory.string)
      object.add("source", source.string)
      object.add("imported", report.imported)
      object.add("present", report.present)
      object.add("expired", report.expired)
      object.add("skipped", report.skipped)
      object.add("failed", report.failed)
      object.add("bytes", report.bytes)
      output.line(object)
    } else if !options.quiet {
      output.line(
        "\(directory.string.printable): \(report.imported) imported, \(ByteCount(report.bytes)); "
          + "\(report.present) present, \(report.expired) expired, \(report.skipped) skipped, \(report.failed) failed")
    }
  }
}

extension BlobStore.ImportFormat: ExpressibleByArgument {}

extension JSONObject {
  fileprivate mutating func add(_ file: FilePath, _ key: BlobKey?, _ result: String) {
    add("file", file.string)
    add("key", key?.string)
    add("result", result)
  }
}
