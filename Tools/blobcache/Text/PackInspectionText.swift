internal import BlobRecord
internal import BlobStore
internal import SystemPackage
internal import TextFormats

/// The text of a pack's inspection.
struct PackInspectionText {
  let pack: PackInspection
  let now: UnixTime
  let style: Style

  private static let columns = FixedColumns(columns: [
    .init(title: "OFFSET", width: 7, alignment: .right), .init(title: "SIZE", width: 5, alignment: .right),
    .init(title: "SEQUENCE", width: 10, alignment: .right), .init(title: "STATE", width: 7),
    .init(title: "LOCKS", width: 5, alignment: .right), .init(title: "TTL", width: 8),
    .init(title: "UPDATED", width: 20), .init(title: "PAYLOAD", width: 7, alignment: .right),
  ])

  /// The lines about the pack as a whole.
  var head: [String] {
    [
      style(pack.path.string.printable, .bold),
      "  pack      number \(pack.number), identifier 0x\(Hexadecimal.text(pack.identifier, digits: 16))",
      "  file      \(ByteCount(pack.fileSize)), of which \(ByteCount(pack.mediumSize)) on the medium",
      "  verdict   \(pack.flaw.map { style($0, .red) } ?? style("sound", .green))",
    ]
  }

  func lines(of chunk: PackInspection.Chunk) -> [String] {
    let dead = chunk.records.count { $0.isDead }
    var facts = [
      "\(chunk.state?.rawValue ?? "unknown state")", "class \(chunk.recordClass)",
      "\(ByteCount(chunk.byteCount).exact) given out",
      "\(chunk.records.count - dead) live records, \(dead) dead",
    ]
    if chunk.inFlight > 0 { facts.append("\(chunk.inFlight) in flight") }
    if chunk.unreadableByteCount > 0 { facts.append("\(ByteCount(chunk.unreadableByteCount).exact) are no record") }
    if let expiry = chunk.latestExpiry { facts.append("expires by \(expiry.iso8601) (\(expiry.relative(to: now)))") }
    let line = "  " + style("chunk \(chunk.number)", .bold) + "   " + facts.joined(separator: "; ")
    guard !chunk.records.isEmpty else { return [line] }
    return [line, "  " + Self.columns.header(last: "NAME")] + chunk.records.map { "  " + row($0) }
  }

  private func row(_ record: PackInspection.Record) -> String {
    let cells = [
      String(record.place.offset), String(record.byteCount), String(record.place.sequence), record.state,
      String(record.header.refCount),
      record.header.ttl == 0 ? "default" : TimeSpan(seconds: Int64(clamping: record.header.ttl)).description,
      record.header.lastUpdate.iso8601, String(record.header.payloadSize),
    ]
    return Self.columns.row(cells, last: record.fileName?.printable ?? "no text") { column, cell in
      column == 3 ? style(cell, record.colour) : cell
    }
  }
}

extension PackInspection.Record {
  /// A Boolean value that indicates whether a load would report the record as damaged.
  var isDamaged: Bool { !isDead && !hasSoundPayload }

  /// `live`, `dead` or `damaged`.
  var state: String { isDead ? "dead" : isDamaged ? "damaged" : "live" }

  fileprivate var colour: Style.Colour { isDead ? .dim : isDamaged ? .red : .green }
}

extension JSONObject {
  init(_ pack: PackInspection) {
    self.init(type: "pack")
    add("path", pack.path.string)
    add("pack", pack.number)
    // In hexadecimal, because many JSON readers lose precision for integers above 2^53.
    add("identifier", "0x" + Hexadecimal.text(pack.identifier, digits: 16))
    add("fileSize", pack.fileSize)
    add("mediumSize", pack.mediumSize)
    add("flaw", pack.flaw)
  }

  init(_ chunk: PackInspection.Chunk, of pack: PackInspection) {
    self.init(type: "chunk")
    add("pack", pack.number)
    add("chunk", chunk.number)
    add("state", chunk.state?.rawValue)
    add("owner", "0x" + Hexadecimal.text(chunk.owner, digits: 14))
    add("inFlight", chunk.inFlight)
    add("bytes", chunk.byteCount)
    add("class", chunk.recordClass)
    add("latestExpiry", chunk.latestExpiry?.seconds)
    add("records", chunk.records.count)
    add("deadRecords", chunk.records.count { $0.isDead })
    add("unreadableBytes", chunk.unreadableByteCount)
  }

  init(_ record: PackInspection.Record) {
    self.init(type: "packedRecord")
    add(packed: record.place)
    add("size", record.byteCount)
    add("state", record.state)
    add("key", record.key?.string)
    add("fileName", record.fileName)
    add("refCount", record.header.refCount)
    add("ttl", Int64(clamping: record.header.ttl))
    add("updateTime", Int64(clamping: record.header.updateTime))
    add("payloadSize", Int64(clamping: record.header.payloadSize))
    add("flags", record.header.flags.rawValue)
    add("hasSoundPayload", record.hasSoundPayload)
  }
}
