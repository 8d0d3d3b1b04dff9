internal import ArgumentParser
internal import BlobRecord

/// A blob's time to live as users write it: a duration from its store, `never`, or 0 for the directory's default.
enum TimeToLive: Hashable {
  case directoryDefault
  case span(TimeSpan)
  /// The blob does not expire, but a size limit may still evict it.
  case never
}

extension TimeToLive: WrittenValue {
  static var forms: String { "\(TimeSpan.forms); never; or 0 for the default" }

  init?(argument: String) {
    if argument == "never" {
      self = .never
    } else if let span = TimeSpan(argument: argument) {
      self = span.seconds == 0 ? .directoryDefault : .span(span)
    } else {
      return nil
    }
  }
}

extension TimeToLive: CustomStringConvertible {
  /// The value in a record's header.
  var seconds: Int64 {
    switch self {
    case .directoryDefault: 0
    case .span(let span): span.seconds
    case .never: .max
    }
  }

  /// The time to live, or `nil` for the directory's default.
  var duration: Duration? { self == .directoryDefault ? nil : .seconds(seconds) }

  var description: String {
    switch self {
    case .directoryDefault: "default"
    case .span(let span): span.description
    case .never: "never"
    }
  }
}
