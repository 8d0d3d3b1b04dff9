internal import ArgumentParser
internal import BlobStore
internal import SystemPackage

struct CollectCommand: Subcommand {
  static let configuration = CommandConfiguration(
    commandName: "collect", abstract: "Remove what has expired and what was left over, and keep a size limit.",
    discussion: "The exit status is 0 whatever a pass found; 2 if one could not be made.")

  @Argument(help: ArgumentHelp("The caches' directories.", valueName: "dir"))
  var directories: [FilePath]

  @Option(
    help: ArgumentHelp(
      "Over this many bytes, remove unlocked records too, the longest unused first.", valueName: "s"))
  var sizeLimit: ByteCount?

  @Flag(help: "Report what would be removed, and remove nothing.")
  var dryRun = false

  @Option(
    name: .customLong("max-time"),
    help: ArgumentHelp("Look for expired records no longer than this; later passes go on elsewhere.", valueName: "d"))
  var maximumTime: TimeSpan?

  @OptionGroup var options: DirectoryOptions

  func validate() throws {
    if let sizeLimit, sizeLimit.bytes == 0 { throw ValidationError("A size limit is above zero.") }
  }

  func answer(_ output: inout Output) throws -> Answer {
    var answer = Answer.done
    for directory in directories {
      do {
        let report = try collect(directory)
        if options.json {
          output.line(JSONObject(report))
        } else if !options.quiet {
          output.line(Self.text(of: report))
        }
      } catch {
        // The other directories are none the worse for it.
        StandardError.report("\(error)")
        answer = .failed
      }
    }
    return answer
  }

  private func collect(_ directory: FilePath) throws -> CollectionReport {
    var configuration = options.configuration(for: directory)
    if let sizeLimit { configuration.sizeLimit = sizeLimit.bytes }
    let store = try BlobStore(directory: directory, configuration: configuration)
    return try store.collect(CollectionOptions(dryRun: dryRun, maximumTime: maximumTime?.duration))
  }

  private static func text(of report: CollectionReport) -> String {
    let seconds = (report.seconds * 1000).rounded() / 1000
    return "\(report.directory.string.printable): \(report.examined) examined, \(report.expired) expired, "
      + "\(report.evicted) evicted, \(report.damaged) damaged, \(report.temporary) temporary; "
      + "\(ByteCount(report.bytesFreed)) \(report.dryRun ? "to free" : "freed"), "
      + "\(ByteCount(report.bytesAfter)) \(report.dryRun ? "to stay" : "left"); \(seconds) s"
      + (report.failed > 0 ? "; \(report.failed) could not be read or removed" : "")
      + (report.wasCutShort ? "; cut short" : "") + (report.dryRun ? "; dry run" : "")
  }
}

extension JSONObject {
  fileprivate init(_ report: CollectionReport) {
    self.init(type: "collection")
    add("directory", report.directory.string)
    add("examined", report.examined)
    add("expired", report.expired)
    add("evicted", report.evicted)
    add("damaged", report.damaged)
    add("temporary", report.temporary)
    add("bytesFreed", report.bytesFreed)
    add("bytesAfter", report.bytesAfter)
    add("seconds", seconds: report.seconds)
    add("dryRun", report.dryRun)
    add("subdirectories", report.subdirectories)
    add("failed", report.failed)
    add("wasCutShort", report.wasCutShort)
  }
}
