/// The single-thread results as an image, with a row of bars for each peer and a block for each work and size.
///
/// The format is Scalable Vector Graphics 1.1. Bars of a block are in proportion to each other, and the longest fills
/// the block. Colours follow the reader's light or dark mode, and the background is transparent.
struct Chart {
  private enum Size {
    static let margin = 12
    static let heading = 44
    static let names = 112
    static let block = 196
    static let gap = 20
    static let bar = 11
    static let line = 15
    static let title = 34
    /// The space for the number to the right of the longest bar.
    static let number = 62
  }

  private struct Block {
    let title: String
    let lines: [PeerReport.Line]
  }

  private let report: PeerReport
  private let peers: [Peer]
  private let rows: [[Block]]

  init(_ report: PeerReport) {
    self.report = report
    let lines = report.lines.filter { $0.place.threads == 1 }
    peers = Peer.allCases.filter { peer in lines.contains { $0.peer == peer } }
    func blocks(_ work: Work) -> [Block] {
      let ofWork = lines.filter { $0.place.work == work }
      let sizes = Set(ofWork.map(\.place.bytes)).sorted()
      return sizes.map { size in
        Block(title: Self.title(work, size), lines: ofWork.filter { $0.place.bytes == size })
      }
    }
    rows = Work.allCases.map(blocks).filter { !$0.isEmpty }
  }

  var svg: String {
    let rowHeight = Size.title + peers.count * Size.line + Size.gap
    let columns = rows.map(\.count).max() ?? 0
    let width = 2 * Size.margin + Size.names + columns * (Size.block + Size.gap)
    let height = Size.heading + rows.count * rowHeight + Size.margin
    var parts = [
      """
      <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 \(width) \(height)" width="\(width)" height="\(height)" \
      role="img">
      <title>\(Self.escaped(heading(of: report)))</title>
      <style>
      text { font: 11px system-ui, sans-serif; fill: #24292f }
      .title { font-weight: 600 }
      .quiet { fill: #57606a }
      .number { font-variant-numeric: tabular-nums }
      .peer { fill: #8c959f }
      .store { fill: #0969da }
      @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3 }
      .quiet { fill: #9198a1 }
      .peer { fill: #6e7681 }
      .store { fill: #4493f8 }
      }
      </style>
      <text class="title" x="\(Size.margin)" y="20">\(Self.escaped(heading(of: report)))</text>
      <text class="quiet" x="\(Size.margin)" y="36">\(Self.escaped(conditions(of: report)))</text>
      """
    ]
    for (row, blocks) in rows.enumerated() {
      let top = Size.heading + row * rowHeight
      for (index, peer) in peers.enumerated() {
        let y = top + Size.title + index * Size.line + Size.bar - 1
        parts.append(
          #"<text x="\#(Size.margin)" y="\#(y)"\#(peer == .blobStore ? #" class="title""# : "")>\#(peer.title)</text>"#)
      }
      for (column, block) in blocks.enumerated() {
        parts += drawn(block, x: Size.margin + Size.names + column * (Size.block + Size.gap), top: top)
      }
    }
    return parts.joined(separator: "\n") + "\n</svg>\n"
  }

  private func drawn(_ block: Block, x: Int, top: Int) -> [String] {
    let longest = block.lines.map(\.value).max() ?? 1
    let room = Double(Size.block - Size.number)
    return [#"<text class="title" x="\#(x)" y="\#(top + 24)">\#(block.title)</text>"#]
      + peers.enumerated().flatMap { index, peer -> [String] in
        let y = top + Size.title + index * Size.line
        guard let line = block.lines.first(where: { $0.peer == peer }) else {
          return [#"<text class="quiet" x="\#(x)" y="\#(y + Size.bar - 1)">does not</text>"#]
        }
        let length = fixed(max(line.value / longest * room, 1))
        let end = fixed(Double(x) + max(line.value / longest * room, 1) + 5)
        return [
          #"<rect class="\#(peer == .blobStore ? "store" : "peer")" x="\#(x)" y="\#(y)" "#
            + #"width="\#(length)" height="\#(Size.bar)" rx="2"/>"#,
          #"<text class="number" x="\#(end)" y="\#(y + Size.bar - 1)">\#(Self.short(line.value))</text>"#,
        ]
      }
  }

  private func heading(of report: PeerReport) -> String {
    "Microseconds per operation, medians of \(report.conditions.rounds) rounds, one thread: shorter is better"
  }

  private func conditions(of report: PeerReport) -> String {
    let conditions = report.conditions
    return "\(conditions.fileSystem), \(conditions.processors) processors, load average "
      + "\(fixed(conditions.loadBefore)) to \(fixed(conditions.loadAfter)), \(conditions.system)"
  }

  private static func title(_ work: Work, _ size: Int) -> String {
    switch work {
    case .open: "open and first load"
    case .disk: "bytes on disk per byte, \(named(size))"
    case .loadTouching: "load that notes the use, \(named(size))"
    default: "\(work.rawValue), \(named(size))"
    }
  }

  private static func named(_ size: Int) -> String {
    if size.isMultiple(of: 1 << 20) { return "\(size >> 20) MiB" }
    return size.isMultiple(of: 1 << 10) ? "\(size >> 10) KiB" : "\(size) B"
  }

  /// Returns a number with approximately three digits.
  private static func short(_ value: Double) -> String {
    value >= 100 ? "\(Int(value.rounded()))" : value >= 10 ? "\((value * 10).rounded() / 10)" : fixed(value)
  }

  private static func escaped(_ text: String) -> String {
    text.split(separator: "&", omittingEmptySubsequences: false).joined(separator: "&amp;")
      .split(separator: "<", omittingEmptySubsequences: false).joined(separator: "&lt;")
  }
}
