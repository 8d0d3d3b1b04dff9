internal import BlobCache
internal import BlobRecord
internal import BlobStore
internal import SystemPackage
internal import TextFormats

extension BlobResponder {
  func recordPage(_ target: RequestTarget, _ tokenField: HTML?, _ caller: Caller) async throws -> ServerResponse {
    let reference = try RecordReference(target.parameter)
    let checksAll = target.parameter("check") != nil
    let found = try await inspect(reference, checkingUpTo: checksAll ? .max : RecordPage.checkedByteCount)
    let known = found.key.map { RecordReference.key($0.string) } ?? reference
    let preview = try await Preview(of: found, known, cache)
    let page = RecordPage(
      reference: known, file: try found.packed.map(\.file) ?? file(of: reference), inspection: found, preview: preview,
      done: target.parameter("done").flatMap(RecordAction.init(rawValue:)), wasCheckedWhole: checksAll,
      tokenField: tokenField, mayPin: caller.may(Permission(scope: .pin, reach: .directory)), now: now)
    return self.page(page.title, .records, page.content)
  }

  private func inspect(
    _ reference: RecordReference, checkingUpTo byteCount: UInt64
  ) async throws -> RecordInspection {
    let found =
      switch reference {
      case .key(let key): try await cache.inspectRecord(of: BlobKey(key), checkingUpTo: byteCount)
      case .file: try await cache.inspectRecord(inFile: FilePath(file(of: reference)), checkingUpTo: byteCount)
      }
    guard let found else {
      throw Refusal(404, "there is no such record; it may have been removed since it was listed")
    }
    return found
  }

  private func file(of reference: RecordReference) throws -> String {
    switch reference {
    case .key(let key):
      var path = try cache.filePath(for: BlobKey(key))
      _ = path.removePrefix(cache.directory)
      return path.string
    case .file(let file):
      // Only paths of records are permitted: files in the directory or in one of its subdirectories.
      let parts = file.split(separator: "/", omittingEmptySubsequences: false)
      guard (1...2).contains(parts.count), !file.utf8.contains(0),
        parts.allSatisfy({ !$0.isEmpty && !$0.hasPrefix(".") })
      else { throw Refusal(400, "no record lies there") }
      return file
    }
  }
}

struct RecordPage {
  let reference: RecordReference
  let file: String
  let inspection: RecordInspection
  let preview: Preview
  let done: RecordAction?
  let wasCheckedWhole: Bool
  let tokenField: HTML?
  /// A Boolean value that indicates whether the reader may lock and unlock the record.
  let mayPin: Bool
  let now: UnixTime

  /// Larger payloads are verified only on request.
  static let checkedByteCount: UInt64 = 16 << 20

  var title: String {
    switch reference {
    case .key(let key): String(key.prefix(80))
    case .file(let file): file
    }
  }

  private var header: StoredHeader? { inspection.storedHeader }

  var content: HTML {
    let heading: HTML =
      switch reference {
      case .key(let key): .visible(key)
      case .file(let file): .visible(file)
      }
    return """
      <p class="crumbs"><a href="records">Records</a></p>
      <h1 class="name">\(heading) <span class="state \(inspection.state.rawValue)">\(inspection.state.rawValue)</span></h1>
      \(notice)\(verdict)
      <div class="cards record">
      <div class="column"><section class="card"><h2>Record</h2>\(facts)</section>\(actions)</div>
      <section class="card"><h2>Payload</h2>\(preview.markup(of: reference))</section>
      </div>
      \(HeaderTable(inspection: inspection, now: now).markup)
      """
  }

  private var notice: HTML {
    guard let done else { return "" }
    return "<p class=\"notice\" role=\"status\">\(done.past).</p>"
  }

  private var verdict: HTML {
    if let damage = inspection.damage {
      let isStream = inspection.state == .streaming
      return isStream
        ? "<p class=\"notice\" role=\"status\">A writer has not completed the payload yet.</p>"
        : "<p class=\"failure\" role=\"alert\"><b>Damaged:</b> \(damage.description) <code>code \(damage.code)</code></p>"
    }
    let hasChecksum = header?.flags.contains(.payloadChecksum) ?? false
    if hasChecksum, inspection.payloadChecksum == nil {
      let link = ViewerLink.record(reference).with("check", "1")
      return """
        <p class="notice">The header is sound. The payload is large, and was not compared with its checksum.
        <a class="button" href="\(link)">Compare it</a></p>
        """
    }
    let text =
      hasChecksum
      ? "Sound: the header and the payload are what was stored." : "The header is sound. The payload has no checksum."
    return "<p class=\"sound\">\(text)</p>"
  }

  // MARK: Facts

  private var facts: HTML {
    let rows: [(name: String, value: HTML)] = [
      ("Payload", payloadSize), ("Type", "\(type)"), ("Updated", moment(header.map { $0.fields.lastUpdate })),
      ("Expires", expiry), ("Time to live", "\(timeToLive)"), ("Locks", locks),
      ("Flags", "\(header?.flags.description ?? "–")"),
      ("File", "<code>\(HTML.visible(file))</code>\(place)"),
      (inspection.packed == nil ? "File size" : "Size as a file", HTML.bytes(inspection.fileSize)),
    ]
    return "<dl>\(rows.map { "<dt>\($0.name)</dt><dd>\($0.value)</dd>" as HTML })</dl>"
  }

  private var place: HTML {
    guard let place = inspection.packed else { return "" }
    return """
       <small>packed: chunk \(place.chunk), offset \(place.offset), sequence \(Quantities.count(Int64(clamping: place.sequence)))</small>
      """
  }

  private var payloadSize: HTML {
    let found = inspection.payloadByteCount
    return "\(HTML.bytes(found))\(found >= 1000 ? " (\(Quantities.count(found)) bytes)" : "")"
  }

  private var type: String {
    let guess = inspection.payloadKind == .unknown ? "" : "seems to be \(inspection.payloadKind.rawValue)"
    guard let stored = MediaType(extendedData: inspection.extendedData)?.text else {
      return guess.isEmpty ? "unknown" : guess
    }
    return guess.isEmpty ? stored : "\(stored), \(guess)"
  }

  private func moment(_ time: UnixTime?) -> HTML { time.map { .time($0, now: now) } ?? "–" }

  private var expiry: HTML {
    guard let expiry = inspection.expiry else { return "–" }
    return inspection.state == .locked
      ? "never while it is locked; else \(HTML.time(expiry, now: now))" : moment(expiry)
  }

  private var timeToLive: String {
    guard let header else { return "–" }
    switch header.ttl {
    case 0: return "the directory's default, from the last access"
    case UInt64(Int64.max)...: return "for ever"
    default: return "\(Quantities.span(Int64(clamping: header.ttl))) (\(header.ttl) s)"
    }
  }

  private var locks: HTML {
    guard let count = header?.refCount, count > 0 else { return "none" }
    return "\(count)"
  }

  // MARK: Actions

  private var actions: HTML {
    guard let tokenField, case .key(let key) = reference else { return "" }
    let isLocked = (header?.refCount ?? 0) > 0
    let isLive = [.live, .locked].contains(inspection.state)
    func button(_ action: RecordAction) -> HTML {
      "<button name=\"action\" value=\"\(action.rawValue)\">\(action.title)</button>"
    }
    var buttons: HTML = ""
    if mayPin, isLive { buttons += button(.lock) }
    if mayPin, isLocked { buttons += "\(button(.unlock))\(button(.unlockAll))" }
    if isLive, header?.ttl == 0 { buttons += button(.touch) }
    let check = ViewerLink.record(reference).with("check", "1")
    return """
      <section class="card actions"><h2>Actions</h2>
      <form method="post" action="change">\(tokenField)<input type="hidden" name="key" value="\(key)">
      <p>\(buttons) <a class="button" href="\(check)">Verify</a></p>
      <details><summary class="button danger">Remove…</summary>
      <p>\(isLocked ? "It is locked, and goes all the same." : "Whoever needs it must make it again.")
      <button class="danger" name="action" value="\(RecordAction.remove.rawValue)">Remove it</button></p></details>
      </form></section>
      """
  }
}
