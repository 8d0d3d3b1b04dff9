internal import BlobCache
internal import BlobRecord
internal import BlobStore
internal import TextFormats

extension BlobResponder {
  func recordTable(_ target: RequestTarget) async throws -> ServerResponse {
    let query = try RecordTableQuery(target)
    let usage = try await cache.usageEstimate()
    var page = RecordTablePage(query: query, notice: Self.notice(target), count: usage?.records, now: now)
    if let order = query.order {
      let progress = try await viewer.surveys.progress(
        of: .init(prefix: query.prefix, states: query.states), in: cache, anew: target.parameter("anew") != nil)
      page.rows = progress.result.first[order]?.rows ?? []
      page.survey = progress
    } else {
      var start = query.start
      if let percent = query.percent { start = try await cache.position(atShare: Double(percent) / 100) }
      let entries = try await cache.page(
        prefix: query.prefix, from: start, limit: RecordTableQuery.pageSize,
        where: { query.states.contains($0.state) })
      let uses = try cache.useCounts(of: entries.entries)
      page.rows = entries.entries.enumerated().map { RecordRow($1, useCount: uses?[$0]) }
      page.next = entries.next
    }
    return self.page("Records", query.state == "locked" ? .locked : .records, page.content)
  }

  private static func notice(_ target: RequestTarget) -> HTML {
    guard target.parameter("done") == RecordAction.remove.rawValue else { return "" }
    return "<p class=\"notice\" role=\"status\">\(RecordAction.remove.past).</p>"
  }
}

struct RecordTableQuery {
  var prefix = ""
  var state = "all"
  var states = Set(RecordState.allCases)
  /// The order, or `nil` for the order of the directory, which requires no scan.
  var order: RecordOrder?
  var start = WalkPosition.start
  /// The start position in percent of the directory, or `nil` for a page that follows another one.
  var percent: Int?

  static let pageSize = 100

  init(_ target: RequestTarget) throws(Refusal) {
    for (name, value) in target.query {
      switch name {
      case "prefix": prefix = value
      case "state":
        guard value != "all", !value.isEmpty else { continue }
        guard let known = RecordState(rawValue: value) else { throw Refusal(400, "there is no state \(value)") }
        state = value
        states = known == .live ? [.live, .locked] : [known]
      case "sort":
        guard !value.isEmpty else { continue }
        guard let known = RecordOrder(rawValue: value) else { throw Refusal(400, "there is no order \(value)") }
        order = known
      case "after":
        guard let position = WalkPosition(value) else { throw Refusal(400, "there is no such place in the directory") }
        start = position
      case "at":
        guard let number = Int(value), (0..<100).contains(number) else {
          throw Refusal(400, "a place in the directory is a number from 0 to 99")
        }
        percent = number
      // Links from other pages have additional parameters.
      default: continue
      }
    }
  }

  func link(order: RecordOrder?) -> ViewerLink {
    ViewerLink(.records).with("prefix", prefix.isEmpty ? nil : prefix).with("state", state == "all" ? nil : state)
      .with("sort", order?.rawValue)
  }
}

struct RecordTablePage {
  let query: RecordTableQuery
  let notice: HTML
  let count: Int64?
  let now: UnixTime
  var rows: [RecordRow] = []
  var next: WalkPosition?
  var survey: Surveys.Progress?

  private var isAboutLocks: Bool { query.state == "locked" }

  var content: HTML {
    """
    <h1>\(isAboutLocks ? "Locked records" : "Records") \(total)</h1>
    \(notice)\(form)\(jumps)
    <div id="progress" data-live>\(progress)</div>
    <div class="scroll"><table class="records" id="records">
    <thead><tr>\(heads)</tr></thead>
    <tbody\(reloads)>\(rows.map(row))</tbody>
    </table></div>
    \(end)
    """
  }

  private var total: HTML {
    guard let count, query.state == "all", query.prefix.isEmpty else { return "" }
    return "<small>\(Quantities.count(count))</small>"
  }

  // MARK: Above the table

  private var form: HTML {
    let states = (["all"] + RecordState.allCases.map(\.rawValue)).map { Self.option($0, $0, query.state) }
    let orders = RecordOrder.allCases.map { Self.option($0.rawValue, $0.title, query.order?.rawValue ?? "") }
    return """
      <form class="filter" action="records" role="search">
      <label>Keys that begin with <input type="search" name="prefix" value="\(query.prefix)" accesskey="f" autocomplete="off" spellcheck="false"></label>
      <label>State <select name="state">\(states)</select></label>
      <label>Order <select name="sort">\(Self.option("", "as in the directory", query.order?.rawValue ?? ""))\(orders)</select></label>
      <button>Show</button>
      </form>
      """
  }

  private static func option(_ value: String, _ title: String, _ chosen: String) -> HTML {
    let selected: HTML = value == chosen ? " selected" : ""
    return "<option value=\"\(value)\"\(selected)>\(title)</option>"
  }

  private var jumps: HTML {
    guard query.order == nil, (count ?? 0) > 1000 else { return "" }
    let links = stride(from: 0, to: 100, by: 10).map { share -> HTML in
      let current: HTML = query.percent == share ? " aria-current=\"true\"" : ""
      return "<a href=\"\(query.link(order: nil).with("at", "\(share)"))\"\(current)>\(share) %</a>"
    }
    return "<nav class=\"jumps\" aria-label=\"Places in the directory\">\(links)</nav>"
  }

  private var progress: HTML {
    guard let survey, let order = query.order else { return "" }
    let anew = query.link(order: order).with("anew", "1")
    let counted: HTML =
      survey.isWhole
      ? "<p class=\"hint\">\(order.title): the first \(rows.count) of \(Quantities.count(survey.result.examined)) records. <a href=\"\(anew)\">Look again</a></p>"
      : ""
    return "\(OverviewPage.progress(of: survey, expected: count))\(counted)"
  }

  // MARK: The table

  private var heads: HTML {
    let time: HTML =
      isAboutLocks ? "<th class=\"number\" title=\"The file was last changed then\">Locked at least since</th>" : ""
    return """
      <th>State</th><th>Key</th>\(head("Size", .largest, .smallest))\(head("Updated", .oldest, .newest))\
      \(head("Expires", .nextToExpire, nil))<th class="number">Locks</th>\(time)\(head("Uses", .mostUsed, nil))
      """
  }

  private func head(_ title: String, _ order: RecordOrder, _ reverse: RecordOrder?) -> HTML {
    let isOrdered = query.order == order
    let isReversed = reverse != nil && query.order == reverse
    let sorted: HTML = isOrdered ? " aria-sort=\"descending\"" : isReversed ? " aria-sort=\"ascending\"" : ""
    let next = isOrdered ? reverse : order
    return "<th class=\"number\"\(sorted)><a href=\"\(query.link(order: next))\">\(title)</a></th>"
  }

  private var reloads: HTML { survey.map { !$0.isWhole } ?? false ? " id=\"rows\" data-live" : "" }

  private func row(_ row: RecordRow) -> HTML {
    let locked: HTML = isAboutLocks ? "<td class=\"number\">\(HTML.time(row.changed, now: now))</td>" : ""
    return Self.row(row, locked, now: now)
  }

  static func table(of rows: [RecordRow], now: UnixTime) -> HTML {
    """
    <div class="scroll"><table class="records"><thead><tr><th>State</th><th>Key</th><th class="number">Size</th>\
    <th class="number">Updated</th><th class="number">Expires</th><th class="number">Locks</th>\
    <th class="number">Uses</th></tr></thead><tbody>\(rows.map { row($0, now: now) })</tbody></table></div>
    """
  }

  static func row(_ row: RecordRow, _ more: HTML = "", now: UnixTime) -> HTML {
    let name: HTML =
      switch row.reference {
      case .key(let key): .visible(key)
      case .file(let file): "<span class=\"file\">\(HTML.visible(file))</span>"
      }
    // A packed record without a known key has no page.
    let hasPage = if case .file(let file) = row.reference { !file.hasPrefix(".") } else { true }
    let linked: HTML = hasPage ? "<a href=\"\(ViewerLink.record(row.reference))\">\(name)</a>" : name
    let note = row.damage ?? row.mediaType
    let noted: HTML = note.map { " <small>\($0)</small>" } ?? ""
    let expires: HTML = row.expiry.map { .time($0, now: now) } ?? (row.lockCount > 0 ? "never" : "–")
    return """
      <tr><td><span class="state \(row.state.rawValue)">\(row.state.rawValue)</span></td>\
      <td class="key">\(linked)\(noted)</td>\
      <td class="number">\(HTML.bytes(row.byteCount))</td>\
      <td class="number">\(row.updated.map { HTML.time($0, now: now) } ?? "–")</td><td class="number">\(expires)</td>\
      <td class="number">\(row.lockCount > 0 ? "\(row.lockCount)" : "")</td>\(more)\
      <td class="number">\(row.useCount.map { "\($0)" } ?? "–")</td></tr>

      """
  }

  // MARK: Below the table

  private var end: HTML {
    if let next {
      let link = query.link(order: nil).with("after", next.text)
      let nothing: HTML =
        rows.isEmpty ? "<p class=\"empty\">None among those that were looked at; there are more.</p>" : ""
      return "\(nothing)<p class=\"more\"><a class=\"button\" rel=\"next\" href=\"\(link)\">More records</a></p>"
    }
    guard rows.isEmpty, survey?.isWhole ?? true else { return "" }
    let isFiltered = query.state != "all" || !query.prefix.isEmpty
    return isFiltered
      ? "<p class=\"empty\">No record is like this. <a href=\"records\">Show all</a></p>"
      : "<p class=\"empty\">The directory has no records here. A store makes the first.</p>"
  }
}
