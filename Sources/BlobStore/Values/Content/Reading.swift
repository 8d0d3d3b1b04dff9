internal import BlobRecord

/// The result of a look at a record's place.
enum Reading<Content> {
  /// Nothing, or a foreign file, or a record that is not live.
  case absent
  case live(RecordHeader, Content)
  case damaged(RecordError)
}

extension Reading<Void> {
  init(_ verdict: RecordVerdict) {
    switch verdict {
    case .sound(let header): self = .live(header, ())
    case .expired: self = .absent
    case .broken(let error, _): self = .damaged(error)
    }
  }
}
