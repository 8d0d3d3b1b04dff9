internal import BlobCache
internal import BlobRecord
internal import BlobStore
internal import TextFormats

extension BlobResponder {
  /// Returns JSON lines, the last of which contains the position of the next page.
  func list(_ query: ListQuery) async throws -> ServerResponse {
    let page = try await cache.page(
      prefix: query.prefix, from: query.start, limit: query.limit, where: query.isWanted)
    var text = Data()
    for entry in page.entries {
      // The line of a long key takes milliseconds, in which no other request of this thread runs.
      await Task.yield()
      try Task.checkCancellation()
      text.append(contentsOf: Self.line(entry).utf8)
    }
    var fields: HeaderFields = ["Content-Type": "application/x-ndjson", "Cache-Control": "no-store"]
    if let next = page.next?.text {
      var line = JSONObject(type: "page", abbreviatesTabs: false)
      line.add("next", next)
      text.append(contentsOf: (line.text + "\n").utf8)
      fields.append("X-BlobCache-Next", next)
    }
    return ServerResponse(status: 200, fields: fields, body: .bytes(text))
  }

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

struct ListQuery {
  private static let largestPage = 1000

  private(set) var prefix = ""
  private(set) var start = WalkPosition.start
  private(set) var limit = 100
  private var states: Set<RecordState> = [.live, .locked]

  init(_ target: RequestTarget) throws(Refusal) {
    for (name, value) in target.query {
      switch name {
      case "prefix": prefix = value
      case "after":
        guard let position = WalkPosition(value) else {
          throw Refusal(400, "after must be what a page before has told")
        }
        start = position
      case "limit":
        guard let number = Int(value), (1...Self.largestPage).contains(number) else {
          throw Refusal(400, "limit must be a number from 1 to \(Self.largestPage)")
        }
        limit = number
      case "state":
        if value == "all" {
          states = Set(RecordState.allCases)
        } else {
          guard let state = RecordState(rawValue: value) else {
            let known = (RecordState.allCases.map(\.rawValue) + ["all"]).joined(separator: ", ")
            throw Refusal(400, "state must be one of \(known)")
          }
          states = state == .live ? [.live, .locked] : [state]
        }
      default: throw Refusal(400, "a list has the parameters prefix, after, limit and state")
      }
    }
  }

  func isWanted(_ entry: RecordEntry) -> Bool { states.contains(entry.state) }
}
