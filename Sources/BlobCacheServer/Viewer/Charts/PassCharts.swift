internal import BlobRecord
internal import BlobStore
internal import TextFormats

struct PassCharts {
  let passes: [BlobStore.RecentPass]
  let now: UnixTime

  var loads: HTML {
    let columns = columns {
      [.init(value: Double($0.hits), colour: .first), .init(value: Double($0.misses), colour: .third)]
    } saying: {
      "\(Quantities.count($0.hits)) hits, \(Quantities.count($0.misses)) misses"
    }
    let chart = ColumnChart(title: "Hits and misses between collections", columns: columns)
    return "\(HTML.legend([(.first, "hits"), (.third, "misses")]))\(chart.markup)"
  }

  var removals: HTML {
    let columns = columns {
      [.init(value: Double($0.expired), colour: .second), .init(value: Double($0.evicted), colour: .third)]
    } saying: {
      "\(Quantities.count($0.expired)) expired, \(Quantities.count($0.evicted)) evicted, "
        + "\(Quantities.bytes($0.bytesFreed)) freed"
    }
    let chart = ColumnChart(title: "Records removed by collections", columns: columns)
    return "\(HTML.legend([(.second, "expired"), (.third, "evicted")]))\(chart.markup)"
  }

  private func columns(
    _ parts: (BlobStore.RecentPass) -> [ColumnChart.Part], saying text: (BlobStore.RecentPass) -> String
  ) -> [ColumnChart.Column] {
    passes.prefix(8).reversed().map { pass in
      let age = Quantities.span(max(0, now.seconds - pass.time.seconds))
      return ColumnChart.Column(
        label: "-\(age)", title: "\(pass.time.iso8601): \(text(pass))", parts: parts(pass))
    }
  }
}
