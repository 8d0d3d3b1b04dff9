internal import ArgumentParser
internal import BlobStore

/// The lifetime, after the last access, of blobs without a time to live, as users write it.
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
