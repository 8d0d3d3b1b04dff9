public import ArgumentParser
internal import BlobRecord
public import BlobStore
internal import SystemPackage
internal import TextFormats

struct ImportCommand: DirectorySubcommand {
  static let configuration = CommandConfiguration(
    commandName: "import", abstract: "Store every file of another directory, which stays as it is.",
    discussion: """
      A plain directory's files have their paths in it for keys; the directory is walked. Of the caches of other \
      libraries, blobs live as long as there: what never expires there never expires here. Keys are those of pincache, \
      yycache and urlcache (its URLs); nuke and kingfisher keep only hashes of theirs, which become the keys. The \
      databases of yycache and urlcache are read by SQLite, where it is installed. Links, other files than regular ones \
      and names that begin with a dot are passed over. The cache's directory is made if there is none. Make a dry run \
      first: it says what becomes of each file.
      """)

  static let examples = [
    Example("See what would become of each file", "blobcache import cache photos --dry-run"),
    Example(
      "Take over what PINCache has left", "blobcache import cache com.pinterest.PINDiskCache.covers --format pincache"),
  ]

  @Argument(help: ArgumentHelp("The cache's directory.", valueName: "dir"))
  var directory: FilePath

  @Argument(help: "The directory whose files are stored.")
  var source: FilePath

  @Option(parsing: .unconditional, help: ArgumentHelp("What lies in it.", valueName: "format"))
  var format = BlobStore.ImportFormat.files

  @Option(
    name: .customLong("ttl"), parsing: .unconditional,
    help: ArgumentHelp(
      "Time to live of what has none of its own, or never; 0 for the default, counted from the last access.",
      valueName: "d"), transform: TimeToLive.read)
  var timeToLive: TimeToLive?

  @Flag(help: "Replace live blobs; else they stay, and the file is passed over.")
  var replace = false

  @Flag(help: "Say what would become of each file, and store nothing.")
  var dryRun = false

  @OptionGroup var options: DirectoryOptions

  func answer(_ output: inout Output) throws -> Answer {
    let store = try options.storeToWrite(at: directory, creatingDirectory: true)
    var importOptions = BlobStore.ImportOptions(format: format, lifetime: timeToLive?.imported, replacing: replace)
    importOptions.dryRun = dryRun
    let report = try store.importFiles(from: source, importOptions) { print($0, to: &output) }
    print(report, to: &output)
    if report.withDefaultExpiration > 0, timeToLive == nil, !dryRun, !options.json, !options.quiet {
      DefaultExpirationNote.report(store)
    }
    return report.failed > 0 ? .failed : .done
  }

  private func print(_ finding: BlobStore.ImportFinding, to output: inout Output) {
    if case .failed(_, let error) = finding { StandardError.report(Self.text(of: error)) }
    guard options.json else {
      if dryRun, !options.quiet { output.line(Self.text(of: finding)) }
      return
    }
    var object = JSONObject(type: "importedFile")
    switch finding {
    case .imported(let file, let key, let byteCount, let lifetime):
      object.add(file, key, "done")
      object.add("payloadSize", byteCount)
      object.add("ttl", TimeToLive(lifetime).seconds)
    case .present(let file, let key): object.add(file, key, "present")
    case .expired(let file): object.add(file, nil, "expired")
    case .skipped(let file): object.add(file, nil, "skipped")
    case .failed(let file, let error):
      object.add(file, error.key, "failed")
      object.add("message", Self.text(of: error))
    }
    output.line(object)
  }

  private static func text(of finding: BlobStore.ImportFinding) -> String {
    switch finding {
    case .imported(let file, let key, let byteCount, let lifetime):
      "\(file.string.printable): \(ByteCount(byteCount)), key \(key.string.printable), ttl \(TimeToLive(lifetime))"
    case .present(let file, let key): "\(file.string.printable): present, key \(key.string.printable)"
    case .expired(let file): "\(file.string.printable): expired"
    case .skipped(let file): "\(file.string.printable): skipped"
    case .failed(let file, _): "\(file.string.printable): failed"
    }
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
      object.add("withDefaultExpiration", report.withDefaultExpiration)
      object.add("withoutExpiry", report.withoutExpiry)
      object.add("dryRun", dryRun)
      output.line(object)
    } else if !options.quiet {
      output.line(
        "\(directory.string.printable): \(report.imported) imported, \(ByteCount(report.bytes)); "
          + "\(report.present) present, \(report.expired) expired, \(report.skipped) skipped, \(report.failed) failed; "
          + "ttl: \(report.withoutExpiry) never, \(report.withDefaultExpiration) default"
          + (dryRun ? "; dry run" : ""))
    }
  }
}

extension BlobStore.ImportFormat: ExpressibleByArgument {}

extension TimeToLive {
  fileprivate init(_ lifetime: BlobStore.ImportedLifetime) {
    self =
      switch lifetime {
      case .defaultExpiration: .directoryDefault
      case .limited(let duration): .span(TimeSpan(seconds: duration.components.seconds))
      case .never: .never
      }
  }

  fileprivate var imported: BlobStore.ImportedLifetime {
    switch self {
    case .directoryDefault: .defaultExpiration
    case .span(let span): .limited(span.duration)
    case .never: .never
    }
  }
}

extension JSONObject {
  fileprivate mutating func add(_ file: FilePath, _ key: BlobKey?, _ result: String) {
    add("file", file.string)
    add("key", key?.string)
    add("result", result)
  }
}
