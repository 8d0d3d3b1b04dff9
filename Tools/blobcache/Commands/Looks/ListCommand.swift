internal import ArgumentParser
package import BlobRecord
internal import BlobStore
internal import SystemPackage
internal import TextFormats

struct ListCommand: DirectorySubcommand {
  static let configuration = CommandConfiguration(
    commandName: "list", abstract: "List the blobs with their headers. Nothing is touched.")

  /// The states of the records to list.
  enum StateFilter: String, CaseIterable, ExpressibleByArgument {
    case live, expired, locked, damaged, streaming, all

    func includes(_ state: RecordState) -> Bool {
      switch self {
      case .live: state == .live || state == .locked
      case .expired: state == .expired
      case .locked: state == .locked
      case .damaged: state == .damaged
      case .streaming: state == .streaming
      case .all: true
      }
    }
  }

  static let examples = [
    Example("The blobs of one album", "blobcache list cache --prefix album/"),
    Example(
      "All records, expired and damaged ones too, for a program to read", "blobcache list cache --state all --json"),
  ]

  @Argument(help: ArgumentHelp("The cache's directory.", valueName: "dir"))
  var directory: FilePath

  @Option(parsing: .unconditional, help: ArgumentHelp("Only keys with this prefix.", valueName: "p"))
  var prefix = ""

  @Option(
    parsing: .unconditional, help: "Only records in this state; locked records are live at any age.")
  var state = StateFilter.live

  @OptionGroup var options: DirectoryOptions

  func answer(_ output: inout Output) throws -> Answer {
    let store = try options.store(at: directory)
    let records = try store.records(prefix: prefix)
    let now = store.configuration.now()
    var answer = Answer.done
    var failure: BlobStoreError?
    var isEmpty = true
    if !options.json, !options.quiet { output.line(output.style(Self.columns.header(last: "KEY"), .bold)) }
    for entry in records {
      isEmpty = false
      if let error = entry.accessError {
        StandardError.report(Self.text(of: error))
        answer = .failed
        failure = error
      } else if state.includes(entry.state) {
        output.line(options.json ? JSONObject(record: entry).text : Self.row(entry, now, output.style))
      }
    }
    if let failure { reportOwner(after: failure) }
    if isEmpty { answer.worsen(to: WrongDirectory.answer(directory, options)) }
    return answer
  }
}

// MARK: - For people

extension ListCommand {
  private static let columns = FixedColumns(columns: [
    .init(title: "STATE", width: 7), .init(title: "LOCKS", width: 5, alignment: .right),
    .init(title: "SIZE", width: 8, alignment: .right), .init(title: "TTL", width: 7, alignment: .right),
    .init(title: "UPDATED", width: 20), .init(title: "AGE", width: 8, alignment: .right),
    .init(title: "EXPIRES", width: 8, alignment: .right),
  ])

  private static func row(_ entry: RecordEntry, _ now: UnixTime, _ style: Style) -> String {
    // If the file name does not determine the key, the file name is printed.
    var name = (entry.key?.string ?? entry.file).printable
    if let data = entry.extendedData { name += "  [\(data.preview)]" }
    if let damage = entry.damage { name += "  (\(damage.name))" }
    if entry.isStampedAhead { name += "  (stamped by a clock that was ahead)" }
    guard let header = entry.header else {
      let cells = [entry.state.rawValue, "-", ByteCount(entry.fileSize).description, "-", "-", "-", "-"]
      return columns.row(cells, last: name) { $0 == 0 ? style($1, entry.state.colour) : $1 }
    }
    let cells = [
      entry.state.rawValue, String(header.refCount), ByteCount(header.payloadSize).description,
      header.timeToLiveText, header.lastUpdate.iso8601, header.lastUpdate.relative(to: now),
      header.isLocked ? "never" : entry.expiry?.relative(to: now) ?? "-",
    ]
    return columns.row(cells, last: name) { $0 == 0 ? style($1, entry.state.colour) : $1 }
  }
}

extension RecordHeader {
  package var timeToLiveText: String {
    switch Int64(clamping: ttl) {
    case 0: "default"
    case .max: "never"
    case let seconds: TimeSpan(seconds: seconds).short
    }
  }
}

extension RecordState {
  var colour: Style.Colour {
    switch self {
    case .live: .green
    case .expired: .dim
    case .locked, .streaming: .cyan
    case .damaged, .unreadable: .red
    }
  }
}
