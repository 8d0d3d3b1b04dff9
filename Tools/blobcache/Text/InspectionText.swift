internal import BlobRecord
internal import BlobStore
internal import SystemPackage
internal import TextFormats

/// The text of a record's inspection.
struct InspectionText {
  let inspection: RecordInspection
  let now: UnixTime
  let style: Style

  private static let columns = FixedColumns(columns: [
    .init(title: "OFFSET", width: 6, alignment: .right), .init(title: "SIZE", width: 4, alignment: .right),
    .init(title: "FIELD", width: 16), .init(title: "VALUE", width: 18), .init(title: "MEANING", width: 34),
  ])

  func lines(withBytes: Bool) -> [String] {
    var lines = [style(inspection.path.string.printable, .bold)]
    lines += summary.map { "  " + $0.name.padded(to: 8) + "  " + $0.text }
    lines.append("  " + Self.columns.header(last: "VERDICT"))
    if let header = inspection.storedHeader {
      lines += RecordField.allCases.map { "  " + row($0, header) }
    }
    if withBytes { lines += byteLines }
    return lines + [""]
  }

  // MARK: Summary

  private var summary: [(name: String, text: String)] {
    let extended = inspection.extendedData.map { [("beside", "\(ByteCount($0.count).exact): \($0.preview)")] } ?? []
    return facts + extended + [
      ("verdict", inspection.damage.map { style("\($0) (\($0.code))", .red) } ?? style("sound", .green))
    ]
  }

  private var facts: [(name: String, text: String)] {
    [
      ("key", inspection.key?.string.printable ?? "told neither by the file name nor by the record"),
      ("state", style(inspection.state.rawValue, inspection.state.colour)),
      ("expiry", expiryText),
      ("payload", payloadText),
    ] + (inspection.packed.map { [("packed", $0.text)] } ?? [])
  }

  private var expiryText: String {
    guard let expiry = inspection.expiry, let header = inspection.storedHeader else { return "unknown" }
    let moment = "\(expiry.iso8601) (\(expiry.relative(to: now)))"
    return header.refCount > 0 ? "never while locked; else \(moment)" : moment
  }

  private var payloadText: String {
    let found = inspection.payloadByteCount
    let count = ByteCount(found).exact + (found < 1000 ? "" : " (\(ByteCount(found)))")
    return "\(count), seems to be \(inspection.payloadKind.rawValue)"
  }

  // MARK: Fields

  private func row(_ field: RecordField, _ header: StoredHeader) -> String {
    let cells = [
      String(field.offset), String(field.byteCount), field.rawValue, field.hexadecimal(header), meaning(field, header),
    ]
    return Self.columns.row(cells, last: verdictText(field))
  }

  private func verdictText(_ field: RecordField) -> String {
    switch inspection.verdict(on: field) {
    case nil: "-"
    case .ok?: style("ok", .green)
    case .unusual(let what)?: style("unusual: \(what)", .yellow)
    case .broken(let error)?: style("\(error)", .red)
    }
  }

  private func meaning(_ field: RecordField, _ header: StoredHeader) -> String {
    switch field {
    case .magic: header.magic == RecordHeader.magic ? "SPTF" : "not SPTF"
    case .headerSize: "\(header.headerSize) bytes"
    case .refCount: header.refCount == 0 ? "not locked" : header.refCount == 1 ? "1 lock" : "\(header.refCount) locks"
    case .ttl:
      header.ttl == 0 ? "default, from last access" : TimeSpan(seconds: Int64(clamping: header.ttl)).description
    case .updateTimeSec: timeText(UnixTime(seconds: Int64(clamping: header.updateTime)))
    case .payloadSizeBytes: ByteCount(header.payloadSize).exact
    case .reserved2: header.flags.contains(.keyDigest) ? "key digest" : "reserved"
    case .reserved3: header.flags.contains(.payloadChecksum) ? "payload checksum" : "reserved"
    case .reserved1: "reserved"
    case .reserved4: header.flags.contains(.hasExtension) ? "end of the extension" : "reserved"
    case .flags: header.flags.description
    case .crc: "checksum of bytes 0 to 59"
    }
  }

  private func timeText(_ time: UnixTime) -> String {
    "\(time.iso8601) (\(time.relative(to: now)))"
  }

  // MARK: Bytes

  private var byteLines: [String] {
    let bytes = inspection.headerBytes
    return RecordField.allCases.compactMap { field in
      guard field.offset < bytes.count else { return nil }
      let part = bytes[field.offset..<min(bytes.count, field.offset + field.byteCount)]
      let digits = part.map { Hexadecimal.text($0, digits: 2) }.joined(separator: " ")
      return "  \(Hexadecimal.text(UInt64(field.offset), digits: 2))  \(digits.padded(to: 23))  \(field.rawValue)"
    }
  }
}

extension PackedPlace {
  fileprivate var text: String { "pack \(pack), chunk \(chunk), offset \(offset), sequence \(sequence)" }
}

extension RecordField {
  /// Returns the field's value with all its digits.
  func hexadecimal(_ header: StoredHeader) -> String {
    "0x" + Hexadecimal.text(value(in: header), digits: 2 * byteCount)
  }
}
