internal import Foundation

/// What a soak has to say.
struct SoakReport: Encodable {
  var type = "soak"
  var seed: UInt64
  var operations = 0
  /// System calls that were made to fail.
  var failedCalls = 0
  /// Errors that no failing call explains, and payloads that are not what was stored.
  var wrongAnswers = 0
  var seconds = 0.0
  var holdings: [SoakHoldings] = []
  /// What grew.
  var leaks: [String] = []

  init(seed: UInt64) {
    self.seed = seed
  }

  /// Compares the last round with one after which everything that is kept for good is there.
  mutating func judge(memorySlack: Int) {
    guard let settled = holdings.dropFirst().first, let last = holdings.last else { return }
    func compare(_ name: String, _ count: KeyPath<SoakHoldings, Int?>) {
      guard let before = settled[keyPath: count], let after = last[keyPath: count] else { return }
      if after > before { leaks.append("\(name): \(after), and \(before) before") }
    }
    compare("descriptors", \.descriptors)
    compare("threads", \.threads)
    if last.files > SoakRound.keyCount + 1 { leaks.append("files: \(last.files) for \(SoakRound.keyCount) keys") }
    let halfway = holdings.prefix(holdings.count / 2).compactMap(\.residentBytes).max()
    if let halfway, let after = last.residentBytes, after - halfway > memorySlack {
      leaks.append("memory: \(after) bytes, and \(halfway) before")
    }
  }
}

/// What this process and its directory hold at a moment. Without /proc, nothing is known of the process.
struct SoakHoldings: Encodable {
  var descriptors: Int?
  var threads: Int?
  var residentBytes: Int?
  var files: Int

  init(of directory: String) throws {
    let process = "/proc/self"
    // Absent outside Linux, and then not counted: `null` in the report.
    descriptors = (try? FileManager.default.contentsOfDirectory(atPath: process + "/fd"))?.count
    threads = (try? FileManager.default.contentsOfDirectory(atPath: process + "/task"))?.count
    residentBytes = (try? String(contentsOfFile: process + "/statm", encoding: .utf8))
      .flatMap { Int($0.split(separator: " ").dropFirst().first ?? "") }
      .map { $0 * sysconf(CInt(_SC_PAGESIZE)) }
    files = try FileManager.default.subpathsOfDirectory(atPath: directory).filter { path in
      var isDirectory: ObjCBool = false
      return FileManager.default.fileExists(atPath: directory + "/" + path, isDirectory: &isDirectory)
        && !isDirectory.boolValue
    }.count
  }
}
