internal import ArgumentParser
internal import BlobStore

/// How long blobs without a time to live last after their last access, as people write it.
package enum DefaultTimeToLive: Hashable {
  case span(TimeSpan)
  case never
}

extension DefaultTimeToLive: WrittenValue {
  package static var forms: String { "\(TimeSpan.forms); or never" }

  package init?(argument: String) {
    if argument == "never" {
      self = .never
    } else if let span = TimeSpan(argument: argument) {
      self = .span(span)
    } else {
      return nil
    }
  }

  package var duration: Duration {
    switch self {
    case .span(let span): span.duration
    case .never: .never
    }
  }
}

extension DefaultTimeToLive: CustomStringConvertible {
  package var description: String {
    switch self {
    case .span(let span): span.description
    case .never: "never"
    }
  }
}
