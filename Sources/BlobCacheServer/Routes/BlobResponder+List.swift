internal import BlobCache
internal import BlobRecord
internal import BlobStore
internal import TextFormats

extension BlobResponder {
  /// A page of records as lines of JSON; the last line says where the next page begins.
  func list(_ query: ListQuery) async throws -> ServerResponse {
    let page = try await cache.page(
      prefix: query.prefix, from: query.start, limit: query.limit, where: query.isWanted)
    var text = page.entries.map { Self.line($0) }.joined()
    var fields: HeaderFields = ["Content-Type": "application/x-ndjson", "Cache-Control": "no-store"]
    if let next = page.next?.text {
      var line = JSONObject(type: "page", abbreviatesTabs: false)
      line.add("next", next)
      text += line.text + "\n"
      fields.append("X-BlobCache-Next", next)
    }
    return ServerResponse(status: 200, fields: fields, body: .text(text))
  }

  /// A record as the tool shows it.
  private static func line(_ entry: RecordEntry) -> String {
    let header = entry.storedHeader
    var line = JSONObject(type: "record", abbreviatesTabs: false)
    line.add("key", entry.key?.string)
    line.add("file", entry.file)
    line.add("state", entry.state.rawValue)
    line.add("refCount", header?.refCount)
    line.add("ttl", header.map { Int64(clamping: $0.ttl) })
    line.add("updateTime", header.map { Int64(clamping: $0.updateTime) })
    line.add("payloadSize", header.map { Int64(clamping: $0.payloadSize) })
    line.add("flags", header?.flags.rawValue)
    line.add("crc", header?.crc)
    line.add("expiresAt", [.live, .expired].contains(entry.state) ? entry.expiry?.seconds : nil)
    if let damage = entry.damage {
      line.add("error", damage.name)
      line.add("code", damage.code)
    }
    if let type = MediaType(extendedData: entry.extendedData) { line.add("contentType", type.text) }
    if entry.isStampedAhead { line.add("stampedAhead", true) }
    return line.text + "\n"
  }
}
