internal import BlobCache
internal import BlobRecord
internal import BlobStore
internal import TextFormats

extension BlobResponder {
  func collectionPage(_ tokenField: HTML?) async throws -> ServerResponse {
    let page = CollectionPage(
      collections: try await cache.statistics(), passes: try await cache.recentPasses(),
      verification: viewer.verification.latest, tokenField: tokenField, now: now
    )
    return self.page("Collections", .collections, page.content)
  }

  func collectByForm(_ form: FormFields) async throws -> ServerResponse {
    var options = BlobStore.CollectionOptions(dryRun: form["run"] != "real")
    options.requiresCache = true
    let report = try await cache.collect(options)
    let page = CollectionReportPage(report: report, tokenField: viewer.tokenField)
    return self.page("Collection", .collections, page.content)
  }

  func verifyByForm(_ form: FormFields) async throws -> ServerResponse {
    viewer.verification.begin(cache)
    return Self.redirection(to: ViewerLink(.collections).text)
  }
}

struct CollectionPage {
  let collections: BlobStore.CollectionStatistics
  let passes: [BlobStore.RecentPass]
  let verification: Verification.Progress?
  let tokenField: HTML?
  let now: UnixTime

  var content: HTML {
    """
    <h1>Collections</h1>
    <section class="tiles" id="tiles" data-live>\(tiles)</section>
    <div class="cards">\(forms)
    <section class="card" id="removals" data-live><h2>Removed</h2>\(PassCharts(passes: passes, now: now).removals)</section>
    </div>
    <section class="card" id="verification" data-live>\(verified)</section>
    <section class="card" id="passes" data-live><h2>The last collections, of all processes</h2>\(table)</section>
    """
  }

  private var tiles: HTML {
    let last: HTML = collections.lastPass.map { .time($0.time, now: now) } ?? "never"
    let lastNote: HTML = collections.lastPass.map { "by process \($0.process), in \(Self.seconds($0.seconds))" } ?? ""
    let evictions: [(String, Int64)] = [
      ("for bytes", collections.evictedForSizeLimit), ("for count", collections.evictedForCountLimit),
      ("for free space", collections.evictedForFreeSpace), ("by trims", collections.evictedByTrims),
    ]
    let causes = evictions.filter { $0.1 > 0 }.map { "\(Quantities.count($0.1)) \($0.0)" }.joined(separator: ", ")
    return """
      \(OverviewPage.tile("Last one", last, lastNote))
      \(OverviewPage.tile("Collections", "\(Quantities.count(collections.passes))", "and \(Quantities.count(collections.evictions)) of known records only"))
      \(OverviewPage.tile("Expired", "\(Quantities.count(collections.expired))", ""))
      \(OverviewPage.tile("Evicted", "\(Quantities.count(collections.evicted))", "\(causes)"))
      \(OverviewPage.tile("Freed", HTML.bytes(collections.bytesFreed), "\(Quantities.count(collections.damaged)) damaged files among them"))
      """
  }

  static func seconds(_ seconds: Double) -> String { "\((seconds * 1000).rounded() / 1000) s" }

  private var forms: HTML {
    guard let tokenField else { return "" }
    return """
      <section class="card actions"><h2>Collect</h2>
      <p>A collection removes what has expired, and the least used beyond the limits. First see what it would remove.</p>
      <form method="post" action="collect">\(tokenField)<button name="run" value="dry" class="primary">Dry run</button></form>
      <h2>Verify</h2>
      <p>Reads every byte of the directory, and names what is damaged. Nothing is changed.</p>
      <form method="post" action="verify">\(tokenField)<button>Verify all records</button></form>
      </section>
      """
  }

  private var verified: HTML {
    guard let verification else { return "<h2>Verification</h2><p class=\"empty\">None since the server's start.</p>" }
    let began = HTML.time(verification.began, now: now)
    let found = verification.firstBad
    let table: HTML = found.isEmpty ? "" : RecordTablePage.table(of: found, now: now)
    return "<h2>Verification</h2>\(outcome(of: verification, began))\(table)"
  }

  private func outcome(of verification: Verification.Progress, _ began: HTML) -> HTML {
    if let failure = verification.failure {
      return "<p class=\"failure\" role=\"alert\">Begun \(began): \(failure)</p>"
    }
    let sound = Quantities.count(verification.soundRecords)
    guard verification.isOver else {
      return """
        <p class="notice" role="status">Begun \(began): \(sound) sound records, \
        \(Quantities.count(verification.badFiles)) damaged, \(HTML.bytes(verification.bytes)) read so far.</p>
        """
    }
    guard verification.badFiles > 0 else {
      return "<p class=\"sound\">Begun \(began): all \(sound) records are sound.</p>"
    }
    return """
      <p class="failure" role="alert">Begun \(began): \(sound) sound records, \
      \(Quantities.count(verification.badFiles)) damaged. Collections remove what is damaged; a store of the key replaces it.</p>
      """
  }

  private var table: HTML {
    guard !passes.isEmpty else { return "<p class=\"empty\">There was none yet.</p>" }
    let rows = passes.map { pass -> HTML in
      """
      <tr><td>\(HTML.time(pass.time, now: now))</td><td class="number">\(Self.seconds(pass.seconds))</td>\
      <td class="number">\(Quantities.count(pass.expired))</td><td class="number">\(Quantities.count(pass.evicted))</td>\
      <td class="number">\(HTML.bytes(pass.bytesFreed))</td><td class="number">\(Quantities.count(pass.hits))</td>\
      <td class="number">\(Quantities.count(pass.misses))</td><td class="number">\(Quantities.count(pass.stores))</td>\
      <td class="number">\(pass.hitRatio.map(Quantities.percent) ?? "–")</td></tr>
      """
    }
    return """
      <div class="scroll"><table><thead><tr><th>When</th><th class="number">Took</th><th class="number">Expired</th>\
      <th class="number">Evicted</th><th class="number">Freed</th><th class="number">Hits</th>\
      <th class="number">Misses</th><th class="number">Stores</th><th class="number">Hit ratio</th></tr></thead>\
      <tbody>\(rows)</tbody></table></div>
      """
  }
}

struct CollectionReportPage {
  let report: BlobStore.CollectionReport
  let tokenField: HTML

  var content: HTML {
    let rows: [(name: String, value: HTML)] = [
      ("Looked at", "\(Quantities.count(report.examined))"), ("Expired", "\(Quantities.count(report.expired))"),
      ("Evicted", "\(Quantities.count(report.evicted))"), ("Damaged", "\(Quantities.count(report.damaged))"),
      ("Temporary files", "\(Quantities.count(report.temporary))"), ("Failed", "\(Quantities.count(report.failed))"),
      ("Freed", HTML.bytes(report.bytesFreed)),
      ("Left", "\(Quantities.count(report.recordsAfter)) records, \(HTML.bytes(report.bytesAfter))"),
      ("Time", "\(CollectionPage.seconds(report.seconds))"),
    ]
    return """
      <p class="crumbs"><a href="collections">Collections</a></p>
      <h1>\(report.dryRun ? "A collection would do this" : "Collected")</h1>
      <section class="card"><dl>\(rows.map { "<dt>\($0.name)</dt><dd>\($0.value)</dd>" as HTML })</dl>\(next)</section>
      """
  }

  private var next: HTML {
    guard report.dryRun else { return "<p><a class=\"button\" href=\"collections\">Back</a></p>" }
    return """
      <form method="post" action="collect"><p>\(tokenField)<button name="run" value="real" class="danger">Collect now</button> \
      <a class="button" href="collections">Leave it</a></p></form>
      """
  }
}
