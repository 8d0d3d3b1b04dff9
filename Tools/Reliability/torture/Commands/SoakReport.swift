internal import Foundation

/// The results of a soak.
struct SoakReport: Encodable {
  var type = "soak"
  var seed: UInt64
  var operations = 0
  /// The number of system calls that were made to fail.
  var failedCalls = 0
  /// The number of errors without a failed call as their cause, and of payloads that differ from the stored ones.
  var wrongAnswers = 0
  var seconds = 0.0
  var holdings: [SoakHoldings] = []
  /// Descriptions of the resources that grew.
  var leaks: [String] = []

  init(seed: UInt64) {
    self.seed = seed
  }

  /// Compares the last round with an earlier one, after which all permanent resources are allocated.
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

/// The resources of this process and its directory. Without /proc, the process's resources are unknown.
struct SoakHoldings: Encodable {
  var descriptors: Int?
  var threads: Int?
  var residentBytes: Int?
  var files: Int

  init(of directory: String) throws {
    let process = "/proc/self"
    // Not available outside Linux, and then `null` in the report.
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
