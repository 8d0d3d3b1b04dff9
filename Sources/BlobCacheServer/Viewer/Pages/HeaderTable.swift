internal import BlobRecord
internal import BlobStore
internal import TextFormats

struct HeaderTable {
  let inspection: RecordInspection
  let now: UnixTime

  var markup: HTML {
    """
    <section class="card header"><h2>The header\(inspection.packed == nil ? "" : " that its file would have"), byte by byte</h2>
    \(bytes)
    <div class="scroll"><table><thead><tr><th class="number">Offset</th><th class="number">Size</th><th>Field</th>\
    <th>Value</th><th>Meaning</th><th>Verdict</th></tr></thead><tbody>\(rows)</tbody></table></div></section>
    """
  }

  private var bytes: HTML {
    let bytes = inspection.headerBytes
    guard !bytes.isEmpty else { return "<p class=\"empty\">\(nothing)</p>" }
    var lines: HTML = ""
    for start in stride(from: 0, to: bytes.count, by: 16) {
      let cells = bytes[start..<min(start + 16, bytes.count)].enumerated().map { index, byte in
        Self.cell(byte, at: start + index)
      }
      lines += "<tr><th>\(Hexadecimal.text(UInt(start), digits: 2))</th>\(cells)</tr>"
    }
    return
      "<div class=\"scroll\"><table class=\"bytes\" aria-label=\"Bytes of the header\"><tbody>\(lines)</tbody></table></div>"
  }

  private var nothing: HTML {
    inspection.packed == nil ? "The file is empty." : "The header in the pack is damaged, so it makes no file."
  }

  private static func cell(_ byte: UInt8, at offset: Int) -> HTML {
    let field = RecordField.allCases.last { $0.offset <= offset }
    let name = field?.rawValue ?? ""
    return """
      <td class="field-\(name)" title="byte \(offset): \(name)">\(Hexadecimal.text(byte, digits: 2))</td>
      """
  }

  private var rows: [HTML] {
    guard let header = inspection.storedHeader else {
      return [
        "<tr><td colspan=\"6\">\(inspection.packed == nil ? "The file has fewer bytes than a header." : nothing)</td></tr>"
      ]
    }
    return RecordField.allCases.map { field in
      let value = "0x" + Hexadecimal.text(field.value(in: header), digits: 2 * field.byteCount)
      return """
        <tr class="field-\(field.rawValue)"><td class="number">\(field.offset)</td><td class="number">\(field.byteCount)</td>\
        <td class="mark">\(field.rawValue)</td><td><code>\(value)</code></td><td>\(meaning(field, header))</td>\
        <td>\(verdict(field))</td></tr>

        """
    }
  }

  private func meaning(_ field: RecordField, _ header: StoredHeader) -> HTML {
    switch field {
    case .magic: header.magic == RecordHeader.magic ? "SPTF" : "not SPTF"
    case .headerSize: "\(header.headerSize) bytes"
    case .refCount: header.refCount == 0 ? "not locked" : "locks: \(header.refCount)"
    case .ttl: header.ttl == 0 ? "default, from the last access" : "\(Quantities.span(Int64(clamping: header.ttl)))"
    case .updateTimeSec: .time(UnixTime(seconds: Int64(clamping: header.updateTime)), now: now)
    case .payloadSizeBytes: "\(Quantities.count(Int64(clamping: header.payloadSize))) bytes"
    case .reserved1: "reserved"
    case .reserved2: header.flags.contains(.keyDigest) ? "digest of the file's name" : "reserved"
    case .reserved3: header.flags.contains(.payloadChecksum) ? "checksum of the payload" : "reserved"
    case .reserved4: header.flags.contains(.hasExtension) ? "end of the extension" : "reserved"
    case .flags: "\(header.flags.description)"
    case .crc: "checksum of bytes 0 to 59"
    }
  }

  private func verdict(_ field: RecordField) -> HTML {
    switch inspection.verdict(on: field) {
    case nil: "–"
    case .ok?: "<span class=\"verdict ok\">ok</span>"
    case .unusual(let what)?: "<span class=\"verdict unusual\">\(what)</span>"
    case .broken(let error)?: "<span class=\"verdict broken\">\(error.description)</span>"
    }
  }
}
