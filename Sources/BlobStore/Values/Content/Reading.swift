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

/// How a lookup may read.
enum ReadMode {
  /// The load's first lookup, with as few calls as there can be.
  case first
  /// A further lookup, which asks for the file's owner and size, too.
  case again
  /// Never waits for the disk, and is given up where anything is odd or has changed meanwhile.
  case withoutBlocking

  var mayBlock: Bool { self != .withoutBlocking }
}
