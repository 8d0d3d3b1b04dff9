internal import ArgumentParser
internal import BlobRecord
internal import BlobStore

/// The settings of collections: fields of the configuration file and environment variables.
///
/// A variable's name is the field's name in capitals with the prefix `BLOBCACHE_`.
enum CollectionSetting: String, CaseIterable {
  case interval = "every"
  case jitter
  case firstDelay
  case parallel
  case metricsFile
  case sizeLimit
  case countLimit
  case keepFree
  case eviction
  case maximumTime = "maxTime"
  case defaultTimeToLive = "defaultTTL"
  case naming
  case isFlat = "flat"
  case allowsWorldWritable = "allowWorldWritable"

  /// A Boolean value that indicates whether each directory can have its own value.
  var belongsToDirectories: Bool {
    switch self {
    case .firstDelay, .parallel, .metricsFile: false
    case .interval, .jitter, .sizeLimit, .countLimit, .keepFree, .eviction, .maximumTime, .defaultTimeToLive, .naming,
      .isFlat,
      .allowsWorldWritable:
      true
    }
  }

  func accepts(_ text: String) -> Bool {
    switch self {
    case .interval, .jitter, .firstDelay, .maximumTime: TimeSpan(argument: text) != nil
    case .defaultTimeToLive: DefaultTimeToLive(argument: text) != nil
    case .sizeLimit: ByteCount(argument: text).map { $0.bytes > 0 } ?? false
    case .countLimit: Int64(text).map { $0 > 0 } ?? false
    case .keepFree: ByteCount(argument: text) != nil
    case .eviction: BlobStore.Eviction(rawValue: text) != nil
    case .parallel: Int(text).map((1...64).contains) ?? false
    case .metricsFile: !text.isEmpty
    case .naming: RecordNaming(argument: text) != nil
    case .isFlat, .allowsWorldWritable: Bool(text) != nil
    }
  }

  /// A description of the accepted values that can follow "must be".
  var expectation: String {
    switch self {
    case .interval, .jitter, .firstDelay, .maximumTime: TimeSpan.forms
    case .defaultTimeToLive: DefaultTimeToLive.forms
    case .sizeLimit: ByteCount.forms + "; above zero"
    case .countLimit: "a whole number above zero"
    case .keepFree: ByteCount.forms
    case .eviction: "one of " + BlobStore.Eviction.allCases.map(\.rawValue).joined(separator: ", ")
    case .parallel: "a number from 1 to 64"
    case .metricsFile: "a path"
    case .naming: "one of " + RecordNaming.allCases.map(\.rawValue).joined(separator: ", ")
    case .isFlat, .allowsWorldWritable: "true or false"
    }
  }

  /// Parses the value of an option, or throws an error that describes the accepted values.
  func read<Value: ExpressibleByArgument>(_ text: String) throws -> Value {
    guard accepts(text), let value = Value(argument: text) else { throw ValidationError("it must be \(expectation)") }
    return value
  }
}
