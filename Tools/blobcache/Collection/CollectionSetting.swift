internal import ArgumentParser
internal import BlobRecord

/// The settings of collections: fields of the configuration file, and variables of the environment.
///
/// A variable's name is the field's in capitals, after `BLOBCACHE_`.
enum CollectionSetting: String, CaseIterable {
  case interval = "every"
  case jitter
  case firstDelay
  case parallel
  case metricsFile
  case sizeLimit
  case countLimit
  case keepFree
  case maximumTime = "maxTime"
  case defaultTimeToLive = "defaultTTL"
  case naming
  case isFlat = "flat"
  case allowsWorldWritable = "allowWorldWritable"

  /// Whether directories may differ in it.
  var belongsToDirectories: Bool {
    switch self {
    case .firstDelay, .parallel, .metricsFile: false
    case .interval, .jitter, .sizeLimit, .countLimit, .keepFree, .maximumTime, .defaultTimeToLive, .naming, .isFlat,
      .allowsWorldWritable:
      true
    }
  }

  func accepts(_ text: String) -> Bool {
    switch self {
    case .interval, .jitter, .firstDelay, .maximumTime, .defaultTimeToLive: TimeSpan(argument: text) != nil
    case .sizeLimit: ByteCount(argument: text).map { $0.bytes > 0 } ?? false
    case .countLimit: Int64(text).map { $0 > 0 } ?? false
    case .keepFree: ByteCount(argument: text) != nil
    case .parallel: Int(text).map((1...64).contains) ?? false
    case .metricsFile: !text.isEmpty
    case .naming: RecordNaming(argument: text) != nil
    case .isFlat, .allowsWorldWritable: Bool(text) != nil
    }
  }

  /// What is accepted, in words.
  var expectation: String {
    switch self {
    case .interval, .jitter, .firstDelay, .maximumTime, .defaultTimeToLive: "a duration, such as 90s, 10m, 6h"
    case .sizeLimit: "a size above zero, such as 4096, 10MB, 512KiB"
    case .countLimit: "a number above zero"
    case .keepFree: "a size, such as 4096, 10MB, 512KiB"
    case .parallel: "a number from 1 to 64"
    case .metricsFile: "a path"
    case .naming: "one of " + RecordNaming.allCases.map(\.rawValue).joined(separator: ", ")
    case .isFlat, .allowsWorldWritable: "true or false"
    }
  }
}
