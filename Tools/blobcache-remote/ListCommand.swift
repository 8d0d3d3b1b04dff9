internal import TextFormats

#if Remote && Tool
  internal import ArgumentParser
  internal import BlobCache
  internal import BlobCacheCommands
  internal import BlobRecord

  struct ListCommand: RemoteSubcommand {
    static let configuration = CommandConfiguration(
      commandName: "list", abstract: "List the records of a namespace, in the engine's order.",
      discussion: """
        Sizes and ages are in the headers: a request for each record, sixteen at a time. Objects that are no record have \
        names alone.
        """)

    @OptionGroup var options: RemoteOptions

    @Option(
      parsing: .unconditional,
      help: ArgumentHelp(
        "Only keys that begin so; long keys and those of a sha256 namespace have no names to tell them by.",
        valueName: "text"))
    var prefix = ""

    @Option(
      parsing: .unconditional, help: ArgumentHelp("List so many at most.", valueName: "n"))
    var limit = 100

    @Flag(help: "Only names: no request for each record.")
    var names = false

    func validate() throws {
      guard limit > 0 else { throw ValidationError("--limit must be above zero.") }
    }

    func answer(_ records: RemoteRecords, _ output: inout Output) async throws -> Answer {
      if !options.json, !names { output.line(Self.row("SIZE", "TTL", "AGE", "EXPIRES", "KEY")) }
      var (page, rest): (String?, Int) = (nil, limit)
      repeat {
        let (entries, next) = try await records.page(prefix: prefix, page)
        let shown = Array(entries.prefix(rest))
        let headers = names ? [:] : try await Self.headers(of: shown, in: records)
        for entry in shown { show(entry, headers[entry.name], records.now(), &output) }
        (page, rest) = (next, rest - shown.count)
      } while page != nil && rest > 0
      return .done
    }

    private static func headers(
      of entries: [RemoteRecords.Entry], in records: RemoteRecords
    ) async throws -> [RemoteName: RecordHeader] {
      try await withThrowingTaskGroup(of: (RemoteName, RecordHeader?).self) { group in
        var headers: [RemoteName: RecordHeader] = [:]
        for (count, entry) in entries.enumerated() {
          if count >= 16, let (name, header) = try await group.next() { headers[name] = header }
          group.addTask { (entry.name, try await records.header(of: entry.name)) }
        }
        for try await (name, header) in group { headers[name] = header }
        return headers
      }
    }

    private func show(_ entry: RemoteRecords.Entry, _ header: RecordHeader?, _ now: UnixTime, _ output: inout Output) {
      let expiry = header?.expiry(defaultExpiration: 0)
      if options.json {
        var object = JSONObject(type: "remoteRecord")
        object.add("name", entry.name.string)
        object.add("key", entry.key?.string)
        object.add("payloadSize", header.map { Int64(clamping: $0.payloadSize) })
        object.add("ttl", header.map { Int64(clamping: $0.ttl) })
        object.add("updateTime", header.map { Int64(clamping: $0.updateTime) })
        object.add("expiresAt", expiry?.seconds)
        output.line(object)
        return
      }
      let name = (entry.key?.string ?? entry.name.string).printable
      guard !names else { return output.line(name) }
      guard let header, let expiry else { return output.line(Self.row("-", "-", "-", "-", name)) }
      output.line(
        Self.row(
          ByteCount(header.payloadSize).description, header.timeToLiveText, header.lastUpdate.relative(to: now),
          expiry.relative(to: now), name))
    }

    private static func row(_ size: String, _ ttl: String, _ age: String, _ expiry: String, _ name: String) -> String {
      let cells = [size, ttl, age, expiry].map { $0.padded(to: 10, .right) }
      return (cells + [name]).joined(separator: "  ")
    }
  }
#endif
