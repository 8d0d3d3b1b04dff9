internal import BlobRecord
internal import BlobStore

struct SurveyResult: Sendable {
  struct Tally: Sendable {
    var records: Int64 = 0
    var bytes: Int64 = 0
  }

  private(set) var examined: Int64 = 0
  private(set) var states: [RecordState: Tally] = [:]
  private(set) var sizes = Histogram.sizes
  private(set) var ages = Histogram.ages
  private(set) var first: [RecordOrder: FirstRecords] = [:]

  init() {
    for order in RecordOrder.allCases { first[order] = FirstRecords(order) }
  }

  mutating func add(_ row: RecordRow, now: UnixTime) {
    examined += 1
    states[row.state, default: Tally()].records += 1
    // The header of a damaged file can contain any size.
    states[row.state, default: Tally()].bytes.saturatingAdd(row.byteCount)
    if let updated = row.updated {
      sizes.add(row.byteCount, byteCount: row.byteCount)
      let age = now.seconds.subtractingReportingOverflow(updated.seconds)
      ages.add(age.overflow ? .max : age.partialValue, byteCount: row.byteCount)
    }
    for order in RecordOrder.allCases { first[order]?.add(row) }
  }
}

struct Histogram: Sendable {
  struct Bin: Sendable {
    let label: String
    let end: Int64
    var records: Int64 = 0
    var bytes: Int64 = 0
  }

  private(set) var bins: [Bin]

  mutating func add(_ value: Int64, byteCount: Int64) {
    // A linear search suffices for a few bins. The last bin has no upper bound.
    let index = bins.firstIndex { value < $0.end } ?? bins.count - 1
    bins[index].records += 1
    bins[index].bytes = bins[index].bytes.addingReportingOverflow(byteCount).partialValue
  }

  /// The histogram of payload sizes in bytes.
  static var sizes: Histogram {
    var bins: [Bin] = []
    for (label, power) in [
      ("1K", 10), ("4K", 12), ("16K", 14), ("64K", 16), ("256K", 18), ("1M", 20), ("4M", 22), ("16M", 24), ("64M", 26),
    ] { bins.append(Bin(label: "<\(label)", end: 1 << power)) }
    return Histogram(bins: bins + [Bin(label: "more", end: .max)])
  }

  /// The histogram of the times since the last update, in seconds.
  static var ages: Histogram {
    var bins: [Bin] = []
    for (label, seconds) in [
      ("1m", 60), ("10m", 600), ("1h", 3600), ("6h", 21_600), ("1d", 86_400), ("1w", 604_800), ("30d", 2_592_000),
      ("1y", 31_536_000),
    ] { bins.append(Bin(label: "<\(label)", end: Int64(seconds))) }
    return Histogram(bins: bins + [Bin(label: "older", end: .max)])
  }
}
