public import ArgumentParser
internal import BlobRecord
public import BlobStore
internal import SystemPackage
internal import TextFormats

struct VerifyCommand: DirectorySubcommand {
  static let configuration = CommandConfiguration(
    commandName: "verify", abstract: "Check every header, size, payload checksum and key digest.",
    discussion: """
      Damaged files are damage (exit status 1); foreign files and what unfinished stores have left are reported, and \
      are not. A repair removes damaged files, or moves them to .quarantine in the directory; the exit status is 1 all \
      the same.
      """)

  static let examples = [
    Example("Look for damage, and change nothing", "blobcache verify cache"),
    Example("Move damaged files aside", "blobcache verify cache --repair quarantine"),
  ]

  @Argument(help: ArgumentHelp("The cache's directory.", valueName: "dir"))
  var directory: FilePath

  @Option(parsing: .unconditional, help: ArgumentHelp("What to do with damaged files.", valueName: "policy"))
  var repair = BlobStore.DamagePolicy.report

  @OptionGroup var options: DirectoryOptions

  func answer(_ output: inout Output) throws -> Answer {
    let store = try options.store(at: directory)
    let report = try verify(store, &output)
    print(report, to: &output)
    let records = report.soundRecords.saturatingAdding(report.damagedFiles)
    if !options.quiet, let text = report.foreignRecords.changeOfOwner(of: directory, beside: records) {
      StandardError.report(text)
    }
    if report.unreadableFiles > 0 {
      ChangeOfOwner.report(directory)
      return .failed
    }
    if report.damagedFiles > 0 { return .no }
    let isEmpty = records == 0 && report.temporaryFiles == 0 && report.foreignRecords.files == 0
    return isEmpty ? WrongDirectory.answer(directory, options) : .done
  }

  private func verify(_ store: BlobStore, _ output: inout Output) throws -> BlobStore.VerificationReport {
    // If the counters cannot be read, the total is unknown. The verification reports the cause.
    let total = try? store.usageEstimate()?.records
    let progress = ProgressBar(directory.string, total: total, bytesName: "checked", quiet: options.quiet)
    return try store.verify(repairing: repair) { finding in
      print(finding, to: &output)
      if case .record(let entry) = finding { progress?.add(bytes: entry.fileSize) }
    }
  }

  private func print(_ finding: BlobStore.VerificationFinding, to output: inout Output) {
    switch finding {
    case .record(let entry):
      if let error = entry.accessError {
        StandardError.report(Self.text(of: error))
      } else if let damage = entry.damage {
        print(entry, damage, wasRepaired: false, to: &output)
      } else if entry.isStampedAhead {
        printStampedAhead(entry, to: &output)
      }
    case .repaired(let entry):
      if let damage = entry.damage { print(entry, damage, wasRepaired: true, to: &output) }
    case .temporary(let path): print("temporary", path, to: &output)
    case .foreign(let path): print("foreign", path, to: &output)
    case .foreignRecord(let record): print(record, to: &output)
    }
  }

  private func print(_ entry: RecordEntry, _ damage: RecordError, wasRepaired: Bool, to output: inout Output) {
    if options.json {
      var object = JSONObject(record: entry)
      if repair != .report { object.add("repair", wasRepaired ? repair.rawValue : "none") }
      output.line(object)
    } else {
      let done = wasRepaired ? (repair == .remove ? "; removed" : "; moved to quarantine") : ""
      print("damaged", .red, "\(entry.file.printable): \(damage)\(done)", to: &output)
    }
  }

  private func printStampedAhead(_ entry: RecordEntry, to output: inout Output) {
    if options.json {
      output.line(JSONObject(record: entry))
    } else {
      let time = entry.header?.lastUpdate.iso8601 ?? "?"
      let text = "stamped \(time) by a clock that was ahead; the next collection stamps it anew"
      print("ahead", .yellow, "\(entry.file.printable): \(text)", to: &output)
    }
  }

  private func print(_ type: String, _ path: FilePath, to output: inout Output) {
    var file = path
    _ = file.removePrefix(directory)
    if options.json {
      var object = JSONObject(type: type)
      object.add("file", file.string)
      output.line(object)
    } else {
      print(type, .yellow, file.string.printable, to: &output)
    }
  }

  private func print(_ record: BlobStore.ForeignRecord, to output: inout Output) {
    if options.json {
      var object = JSONObject(type: "foreign")
      object.add("file", record.file)
      object.add("user", record.user)
      object.add("bytes", record.byteCount)
      output.line(object)
    } else {
      print("foreign", .yellow, "\(record.file.printable): belongs to user \(record.user)", to: &output)
    }
  }

  private func print(_ kind: String, _ colour: Style.Colour, _ text: String, to output: inout Output) {
    output.line("\(output.style(kind.padded(to: 9), colour))  \(text)")
  }

  private func print(_ report: BlobStore.VerificationReport, to output: inout Output) {
    if options.json {
      var object = JSONObject(type: "verification")
      object.add("directory", directory.string)
      object.add("soundRecords", report.soundRecords)
      object.add("damagedFiles", report.damagedFiles)
      object.add("unreadableFiles", report.unreadableFiles)
      object.add("temporaryFiles", report.temporaryFiles)
      object.add("foreignFiles", report.foreignFiles)
      object.add("bytes", report.bytes)
      object.add("repairedFiles", report.repairedFiles)
      object.add(report.foreignRecords)
      object.add("stampedAhead", report.stampedAhead)
      output.line(object)
    } else if !options.quiet {
      output.line(
        "\(directory.string.printable): \(report.soundRecords) sound, \(report.damagedFiles) damaged"
          + (repair == .report ? ", " : ", \(report.repairedFiles) of them repaired, ")
          + "\(report.unreadableFiles) unreadable; \(report.temporaryFiles) temporary, \(report.foreignFiles) foreign"
          + (report.foreignRecords.files > 0 ? ", \(report.foreignRecords.files) of them others' records; " : "; ")
          + (report.stampedAhead > 0 ? "\(report.stampedAhead) from a clock that was ahead; " : "")
          + "\(ByteCount(report.bytes)) checked")
    }
  }
}

extension BlobStore.DamagePolicy: ExpressibleByArgument {}
