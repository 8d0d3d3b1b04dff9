#if canImport(FoundationEssentials)
  internal import FoundationEssentials
#else
  internal import Foundation
#endif

/// Environment variables that resemble settings of `collect` but are unknown, for example misspelled ones.
enum EnvironmentNames {
  private static let prefix = "BLOBCACHE_"

  static func reportUnknown(in environment: [String: String] = ProcessInfo.processInfo.environment) {
    let known = CollectionSetting.allCases.map(\.variable)
    for name in environment.keys.sorted() where name.hasPrefix(prefix) && !known.contains(name) {
      let nearest = known.min { distance(name, $0) < distance(name, $1) }
      let advice =
        if let nearest, distance(name, nearest) <= 3 {
          "is \(nearest) meant?"
        } else {
          "the settings are " + known.sorted().joined(separator: ", ")
        }
      StandardError.report("the environment: \(name) is no setting, and is passed over; \(advice)")
    }
  }

  /// Returns the Levenshtein distance: the number of bytes to insert, delete or replace.
  private static func distance(_ a: String, _ b: String) -> Int {
    let (a, b) = (Array(a.utf8), Array(b.utf8))
    var row = Array(0...b.count)
    for i in a.indices {
      var diagonal = row[0]
      row[0] = i + 1
      for j in b.indices {
        let replaced = diagonal + (a[i] == b[j] ? 0 : 1)
        diagonal = row[j + 1]
        row[j + 1] = min(replaced, row[j] + 1, row[j + 1] + 1)
      }
    }
    return row[b.count]
  }
}
