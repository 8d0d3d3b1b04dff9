import Foundation
import Measuring
import Workbench

/// The conditions besides the code that influence the results.
struct Conditions: Encodable {
  let type = "conditions"
  let fileSystem: String
  let system = ProcessInfo.processInfo.operatingSystemVersionString
  let processors = ProcessInfo.processInfo.activeProcessorCount
  let user = geteuid()
  let rounds: Int
  let operations: Int
  /// The load averages of the last minute at the start and the end. Above the number of processors, there was other
  /// load.
  let loadBefore: Double
  var loadAfter = 0.0

  /// Returns the load average of the last minute.
  static func load() -> Double {
    var average = 0.0
    return getloadavg(&average, 1) == 1 ? average : .nan
  }
}

/// The results of a run, compared with the limits.
struct PeerReport {
  struct Line {
    let place: Place
    let peer: Peer
    /// The median, in microseconds or in bytes per byte.
    let value: Double
    /// The store's values divided by the peer's, by round, or `nil` if one of them is missing or both are the same.
    let ratios: Quartiles?
    /// The limit, or `nil` if none applies.
    let limit: Double?

    /// The value that a limit applies to. For `disk`, this is the number of bytes on disk per stored byte.
    var judged: Double? { place.work == .disk ? value : ratios?.median }
    var isMissed: Bool { if let limit, let judged { judged > limit } else { false } }
  }

  let conditions: Conditions
  let lines: [Line]
  let absences: [(Peer, PeerAbsence)]

  init(
    of subject: Peer, _ conditions: Conditions, _ measurements: [Measurement], _ absences: [(Peer, PeerAbsence)],
    _ limits: [Limit]
  ) {
    self.conditions = conditions
    self.absences = absences
    lines = measurements.flatMap { measurement in
      Peer.allCases.compactMap { peer in
        guard let values = measurement.values[peer] else { return nil }
        let ratios = peer == subject ? nil : measurement.values[subject].map { zip($0, values).map { $0 / $1 } }
        return Line(
          place: measurement.place, peer: peer, value: Quartiles(of: values).median,
          ratios: ratios.map { Quartiles(of: $0) },
          limit: limits.first { $0.applies(to: measurement.place, peer, of: subject) }?.maximum)
      }
    }
  }

  var missed: [Line] { lines.filter(\.isMissed) }
}

// MARK: - Table

extension PeerReport {
  /// A table with aligned columns. Times are medians in microseconds; the ratio of the store to the peer is the
  /// median of the rounds' ratios.
  var table: String {
    let titles = ["work", "bytes", "threads", "peer", "us", "ratio", "q1", "q3", "limit"]
    let rows = lines.map { line in
      [
        line.place.work.rawValue, "\(line.place.bytes)", "\(line.place.threads)", line.peer.title,
        fixed(line.value), line.ratios.map { fixed($0.median) } ?? "", line.ratios.map { fixed($0.lower) } ?? "",
        line.ratios.map { fixed($0.upper) } ?? "",
        line.limit.map { fixed($0) + (line.isMissed ? " missed" : "") } ?? "",
      ]
    }
    let skipped = absences.map { "\n\($0.title): skipped, \($1.reason)" }.joined()
    return TextTable(titles: titles, rows: rows, texts: [0, 3, 8]).description
      + (lines.contains { $0.place.work == .disk } ? "\nOf disk, bytes on disk per byte stored instead of us." : "")
      + skipped
  }
}

func fixed(_ value: Double) -> String { String(format: "%.2f", value) }

// MARK: - JSON

extension PeerReport {
  private struct Settings: Encodable {
    let type = "peer"
    let peer, title, settings: String
    /// The reason why the peer did not participate.
    let skipped: String?
  }

  private struct Result: Encodable {
    let type = "result"
    let work: String
    let bytes, threads: Int
    let peer: String
    let microseconds, bytesPerByte: Double?
    /// The ratio of the store's time to the peer's.
    let ratio, lowerQuartile, upperQuartile: Double?
    let limit: Double?
  }

  /// Returns one object per line: the conditions, the settings of each peer, and the results.
  func json() throws -> Data {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    var data = Data()
    func add(_ object: some Encodable) throws { data += try encoder.encode(object) + Data("\n".utf8) }
    try add(conditions)
    for peer in Peer.allCases {
      let absence = absences.first { $0.0 == peer }?.1
      guard absence != nil || lines.contains(where: { $0.peer == peer }) else { continue }
      try add(Settings(peer: peer.rawValue, title: peer.title, settings: peer.settings, skipped: absence?.reason))
    }
    for line in lines {
      let isOfDisk = line.place.work == .disk
      try add(
        Result(
          work: line.place.work.rawValue, bytes: line.place.bytes, threads: line.place.threads,
          peer: line.peer.rawValue, microseconds: isOfDisk ? nil : line.value,
          bytesPerByte: isOfDisk ? line.value : nil, ratio: line.ratios?.median, lowerQuartile: line.ratios?.lower,
          upperQuartile: line.ratios?.upper, limit: line.limit))
    }
    return data
  }
}
