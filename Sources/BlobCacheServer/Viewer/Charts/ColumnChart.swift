internal import TextFormats

struct ColumnChart {
  struct Column {
    let label: String
    let title: String
    /// The parts from bottom to top.
    let parts: [Part]

    var total: Double { parts.reduce(0) { $0 + $1.value } }
  }

  struct Part {
    let value: Double
    let colour: ChartColour
  }

  /// The description for screen readers.
  let title: String
  let columns: [Column]
  var text: (Double) -> String = { Quantities.count(Int64($0)) }

  private static let (height, top, bottom) = (150, 14, 20)
  private static let fewestPlaces = 8

  var markup: HTML {
    let most = columns.map(\.total).max() ?? 0
    guard most > 0 else { return "<p class=\"empty\">\(title): nothing yet</p>" }
    let floor = Self.height - Self.bottom
    // A few columns are aligned to the right, with the same width as in a full chart.
    let step = 100.0 / Double(max(columns.count, Self.fewestPlaces))
    let left = 100 - step * Double(columns.count)
    var marks: HTML = ""
    for (index, column) in columns.enumerated() {
      var base = Double(floor)
      var parts: HTML = ""
      for part in column.parts where part.value > 0 {
        let height = max(1.5, part.value / most * Double(floor - Self.top))
        base -= height
        parts += """
          <rect class="\(part.colour.name)" x="\(Self.number(left + Double(index) * step + step * 0.14))%" \
          y="\(Self.number(base))" width="\(Self.number(step * 0.72))%" height="\(Self.number(height))" rx="2"/>
          """
      }
      let middle = Self.number(left + (Double(index) + 0.5) * step)
      marks += """
        <g><title>\(column.title)</title><rect class="ground" x="\(Self.number(left + Double(index) * step))%" y="0" \
        width="\(Self.number(step))%" height="\(Self.height)"/>\(parts)\
        <text x="\(middle)%" y="\(Self.height - 5)" text-anchor="middle">\(column.label)</text></g>
        """
    }
    return """
      <svg class="chart" role="img" aria-label="\(title)" width="100%" height="\(Self.height)">\
      <line class="axis" x1="0" x2="100%" y1="\(floor)" y2="\(floor)"/>\
      <line class="grid" x1="0" x2="100%" y1="\(Self.top)" y2="\(Self.top)"/>\
      <text class="most" x="2" y="\(Self.top - 4)">\(text(most))</text>\(marks)</svg>
      """
  }

  /// Returns a number with two decimal places, which exceed the resolution of any screen.
  static func number(_ value: Double) -> String {
    guard value.isFinite else { return "0" }
    return "\((value * 100).rounded() / 100)"
  }
}

enum ChartColour: String {
  case first, second, third, fourth

  var name: String { "colour-" + rawValue }
}

extension HTML {
  static func legend(_ entries: [(colour: ChartColour, text: String)]) -> HTML {
    "<p class=\"legend\">\(entries.map { "<span><i class=\"\($0.colour.name)\"></i>\($0.text)</span>" as HTML })</p>"
  }
}
