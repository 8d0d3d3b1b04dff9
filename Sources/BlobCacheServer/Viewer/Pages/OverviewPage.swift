internal import BlobCache
internal import BlobRecord
internal import BlobStore
internal import TextFormats

extension BlobResponder {
  /// Sizes and ages require a scan of all records, which starts automatically only for a small directory.
  func overview(_ target: RequestTarget) async throws -> ServerResponse {
    let usage = try await cache.usageEstimate()
    let traffic = try await cache.traffic()
    let page = OverviewPage(
      usage: usage, packs: try await cache.packUsage(), traffic: traffic, collections: try await cache.statistics(),
      passes: try await cache.recentPasses(),
      samples: viewer.samples.add(.init(time: now, traffic: traffic, usage: usage)),
      survey: try await survey(of: usage, isAsked: target.parameter("survey") != nil),
      sizeLimit: cache.configuration.store.limits.size,
      remote: cache.remoteStatus.map(RemoteCard.init), now: now)
    return self.page("Overview", .overview, page.content)
  }

  private func survey(of usage: BlobStore.UsageEstimate?, isAsked: Bool) async throws -> Surveys.Progress? {
    let isSmall = usage.map { $0.records <= OverviewPage.mostRecordsForSurvey } ?? true
    guard isAsked || isSmall else { return viewer.surveys.known(.init()) }
    return try await viewer.surveys.progress(of: .init(), in: cache)
  }
}

struct OverviewPage {
  let usage: BlobStore.UsageEstimate?
  let packs: BlobStore.PackUsage
  let traffic: BlobStore.Traffic
  let collections: BlobStore.CollectionStatistics
  let passes: [BlobStore.RecentPass]
  let samples: [Samples.Sample]
  let survey: Surveys.Progress?
  let sizeLimit: Int64?
  let remote: RemoteCard?
  let now: UnixTime

  /// A scan of this number of records takes less time than a user notices.
  static let mostRecordsForSurvey: Int64 = 20_000

  var content: HTML {
    """
    <h1>Overview</h1>
    <section class="tiles" id="tiles" data-live>\(tiles)</section>
    <div class="cards">
    <section class="card" id="rate" data-live><h2>Loads a second</h2>\(rate)</section>
    <section class="card" id="bytes" data-live><h2>Bytes in the directory</h2>\(bytes)</section>
    <section class="card" id="loads" data-live><h2>Loads between collections</h2>\(PassCharts(passes: passes, now: now).loads)</section>
    <section class="card" id="removals" data-live><h2>Removed by collections</h2>\(PassCharts(passes: passes, now: now).removals)</section>
    \(remote?.content ?? "")
    </div>
    <div id="survey" data-live>\(surveyed)</div>
    """
  }

  // MARK: Tiles

  private var tiles: HTML {
    let ratio = traffic.hitRatio.map(Quantities.percent) ?? "–"
    let loads: HTML =
      "\(Quantities.count(traffic.hits)) hits, \(Quantities.count(traffic.memoryHits)) in memory, \(Quantities.count(traffic.misses)) misses"
    let removed: HTML =
      "\(Quantities.count(collections.expired)) expired, \(Quantities.count(collections.evicted)) evicted"
    return """
      \(Self.tile("Records", usage.map { "\(Quantities.count($0.records))" } ?? "–", unknownNote))
      \(Self.tile("Bytes", usage.map { HTML.bytes($0.bytes) } ?? "–", limitNote))
      \(Self.tile("Locked", usage.map { "\(Quantities.count($0.lockedRecords))" } ?? "–", lockNote))
      \(Self.tile("Hit ratio", "\(ratio)", loads))
      \(Self.tile("Removed", "\(Quantities.count(collections.expired + collections.evicted))", removed))
      \(packed)
      """
  }

  private var packed: HTML {
    guard packs.packs > 0 else { return "" }
    let note: HTML =
      "\(HTML.bytes(packs.liveBytes)), \(HTML.bytes(packs.deadBytes)) dead, \(HTML.bytes(packs.mediumBytes)) on the medium"
    return Self.tile("Packed", "\(Quantities.count(packs.records))", note)
  }

  static func tile(_ name: String, _ value: HTML, _ note: HTML) -> HTML {
    "<div class=\"tile\"><h2>\(name)</h2><p class=\"value\">\(value)</p><p class=\"note\">\(note)</p></div>"
  }

  private var unknownNote: HTML {
    guard usage != nil else { return "not counted before the first store or collection" }
    return traffic.since.map { "loads counted since \(HTML.time($0, now: now))" as HTML } ?? ""
  }

  private var limitNote: HTML {
    guard let usage, let sizeLimit, sizeLimit > 0 else { return "no limit" }
    return """
      <meter min="0" max="\(sizeLimit)" high="\(sizeLimit / 20 * 19)" value="\(min(usage.bytes, sizeLimit))"></meter> \
      of \(HTML.bytes(sizeLimit))
      """
  }

  private var lockNote: HTML {
    guard let usage, usage.lockedRecords > 0 else { return "none is locked" }
    let link = ViewerLink(.records).with("state", "locked")
    return "<a href=\"\(link)\">\(Quantities.bytes(usage.lockedBytes))</a> stay at any age"
  }

  // MARK: Curves

  private var rate: HTML {
    let steps = zip(samples, samples.dropFirst())
    func perSecond(_ count: (BlobStore.Traffic) -> Int64) -> [Double] {
      steps.map { Double(count($1.traffic) - count($0.traffic)) / Double(max(1, $1.time.seconds - $0.time.seconds)) }
    }
    let chart = LineChart(
      title: "Hits and misses a second while this page is open",
      curves: [
        .init(colour: .first, values: perSecond(\.hits)), .init(colour: .third, values: perSecond(\.misses)),
      ], text: { "\(ColumnChart.number($0))/s" })
    return "\(HTML.legend([(.first, "hits"), (.third, "misses")]))\(chart.markup)"
  }

  private var bytes: HTML {
    let values = samples.compactMap { $0.usage.map { Double($0.bytes) } }
    let chart = LineChart(
      title: "Bytes while this page is open", curves: [.init(colour: .second, values: values)],
      text: { Quantities.bytes(Int64($0)) })
    return "\(HTML.legend([(.second, "headers and payloads")]))\(chart.markup)"
  }

  // MARK: What a walk has told

  private var surveyed: HTML {
    guard let survey else {
      let link = ViewerLink(.overview).with("survey", "1")
      let count = usage.map { Quantities.count($0.records) } ?? "all"
      return """
        <section class="card"><h2>Sizes and ages</h2><p>They need a look at \(count) records.</p>
        <p><a class="button" href="\(link)">Look at all of them</a></p></section>
        """
    }
    let result = survey.result
    return """
      \(Self.progress(of: survey, expected: usage?.records))
      <div class="cards">
      <section class="card"><h2>Sizes of payloads</h2>\(Self.chart("Records by the size of their payload", result.sizes, .second))</section>
      <section class="card"><h2>Time since the update</h2>\(Self.chart("Records by the time since their update", result.ages, .fourth))</section>
      <section class="card wide"><h2>States</h2>\(states(of: result))</section>
      </div>
      """
  }

  static func progress(of survey: Surveys.Progress, expected: Int64?) -> HTML {
    if let failure = survey.failure { return "<p class=\"failure\" role=\"alert\">\(failure)</p>" }
    guard !survey.isWhole else { return "" }
    let examined = survey.result.examined
    let of: HTML = expected.map { " of about \(Quantities.count(max($0, examined)))" } ?? ""
    return """
      <p class="notice" role="status"><progress max="\(max(expected ?? 0, examined, 1))" value="\(examined)"></progress> \
      \(Quantities.count(examined))\(of) records looked at: what is shown is of these.</p>
      """
  }

  private static func chart(_ title: String, _ histogram: Histogram, _ colour: ChartColour) -> HTML {
    let columns = histogram.bins.map { bin in
      ColumnChart.Column(
        label: bin.label,
        title: "\(bin.label): \(Quantities.count(bin.records)) records, \(Quantities.bytes(bin.bytes))",
        parts: [.init(value: Double(bin.records), colour: colour)])
    }
    return ColumnChart(title: title, columns: columns).markup
  }

  private func states(of result: SurveyResult) -> HTML {
    let rows = RecordState.allCases.compactMap { state -> HTML? in
      guard let tally = result.states[state] else { return nil }
      let link = ViewerLink(.records).with("state", state.rawValue)
      let share = result.examined > 0 ? Double(tally.records) / Double(result.examined) : 0
      return """
        <tr><td><a class="state \(state.rawValue)" href="\(link)">\(state.rawValue)</a></td>\
        <td class="number">\(Quantities.count(tally.records))</td><td class="number">\(HTML.bytes(tally.bytes))</td>\
        <td class="number">\(Quantities.percent(share))</td></tr>
        """
    }
    guard !rows.isEmpty else { return "<p class=\"empty\">The directory has no records.</p>" }
    return """
      <table><thead><tr><th>State</th><th class="number">Records</th><th class="number">Bytes</th>\
      <th class="number">Share</th></tr></thead><tbody>\(rows)</tbody></table>
      """
  }
}

struct RemoteCard {
  let status: RemoteStatus

  var content: HTML {
    """
    <section class="card wide" id="remote" data-live><h2>Beyond this machine</h2>
    <p>\(HTML.visible(status.engine)): loads \(Self.state(status.condition)) changes \(Self.state(status.changeCondition))</p>
    <table><tbody>\(rows)</tbody></table>
    </section>
    """
  }

  private static func state(_ condition: RemoteStatus.Condition) -> HTML {
    let (words, colour) =
      switch condition {
      case .inUse: ("in use", "live")
      case .leftAlone: ("left alone", "damaged")
      case .tried: ("tried again", "expired")
      }
    return "<span class=\"state \(colour)\">\(words)</span>"
  }

  private var rows: [HTML] {
    [
      row("Hits", status.hits, "\(HTML.bytes(status.loadedBytes)) loaded"),
      row("Misses", status.misses, "and \(Quantities.count(status.passedOver)) loads that did not ask"),
      row("Uploads", status.uploads, "\(HTML.bytes(status.uploadedBytes)) stored there"),
      row("Removals", status.removals, ""),
      row("Waiting", Int64(status.waitingChanges), HTML.bytes(Int64(status.waitingBytes))),
      row(
        "Given up", status.droppedUploads + status.droppedRemovals,
        "\(Quantities.count(status.droppedUploads)) stores, \(Quantities.count(status.droppedRemovals)) removals"),
      row("Failures", status.failures, "\(Quantities.count(status.damaged)) objects that were no record"),
    ]
  }

  private func row(_ name: String, _ count: Int64, _ note: HTML) -> HTML {
    "<tr><td>\(name)</td><td class=\"number\">\(Quantities.count(count))</td><td>\(note)</td></tr>"
  }
}
