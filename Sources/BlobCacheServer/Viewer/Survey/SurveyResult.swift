internal import BlobRecord
internal import BlobStore

/// What a walk over records has told so far.
struct SurveyResult: Sendable {
  /// Records of a state, and their bytes.
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
    // The header of a damaged file may say anything.
    states[row.state, default: Tally()].bytes.saturatingAdd(row.byteCount)
    if let updated = row.updated {
      sizes.add(row.byteCount, byteCount: row.byteCount)
      let age = now.seconds.subtractingReportingOverflow(updated.seconds)
      ages.add(age.overflow ? .max : age.partialValue, byteCount: row.byteCount)
    }
    for order in RecordOrder.allCases { first[order]?.add(row) }
  }
}
