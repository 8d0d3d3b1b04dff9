struct LineChart {
  struct Curve {
    let colour: ChartColour
    let values: [Double]
  }

  /// The description for screen readers.
  let title: String
  let curves: [Curve]
  let text: (Double) -> String
  var beginsAtZero = true

  private static let (height, top, bottom) = (130, 16, 8)

  var markup: HTML {
    let values = curves.flatMap(\.values)
    guard let count = curves.map(\.values.count).max(), count > 1, let high = values.max(), let low = values.min()
    else { return "<p class=\"empty\">\(title): two looks make a curve</p>" }
    let floor = beginsAtZero ? min(0, low) : low
    let range = high > floor ? high - floor : 1
    let inner = Double(Self.height - Self.top - Self.bottom)
    let paths = curves.map { curve in
      let points = curve.values.enumerated().map { index, value in
        let x = Double(index) / Double(count - 1) * 100
        return "\(ColumnChart.number(x)),\(ColumnChart.number(inner - (value - floor) / range * inner))"
      }
      return "<polyline class=\"curve \(curve.colour.name)\" points=\"\(points.joined(separator: " "))\"/>" as HTML
    }
    return """
      <svg class="chart" role="img" aria-label="\(title)" width="100%" height="\(Self.height)">\
      <line class="grid" x1="0" x2="100%" y1="\(Self.top)" y2="\(Self.top)"/>\
      <line class="axis" x1="0" x2="100%" y1="\(Self.height - Self.bottom)" y2="\(Self.height - Self.bottom)"/>\
      <text class="most" x="2" y="\(Self.top - 4)">\(text(high))</text>\
      <svg x="0" y="\(Self.top)" width="100%" height="\(Int(inner))" viewBox="0 0 100 \(Int(inner))" \
      preserveAspectRatio="none">\(paths)</svg></svg>
      """
  }
}
