internal import ArgumentParser
internal import BlobStore

/// How long blobs without a time to live last after their last access, as people write it.
enum DefaultTimeToLive: Hashable {
  case span(TimeSpan)
  case never
}

extension DefaultTimeToLive: WrittenValue {
  static var forms: String { "\(TimeSpan.forms); or never" }

  init?(argument: String) {
    if argument == "never" {
      self = .never
    } else if let span = TimeSpan(argument: argument) {
      self = .span(span)
    } else {
      return nil
    }
  }

  var duration: Duration {
    switch self {
    case .span(let span): span.duration
    case .never: .never
    }
  }
}

extension DefaultTimeToLive: CustomStringConvertible {
  var description: String {
    switch self {
    case .span(let span): span.description
    case .never: "never"
    }
  }
}
