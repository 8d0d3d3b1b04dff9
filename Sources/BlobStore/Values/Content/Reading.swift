internal import BlobRecord

enum Reading<Content> {
  /// There is no file, a foreign file, or a record that is not live.
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

enum ReadMode {
  /// The first lookup of a load, with as few system calls as possible.
  case first
  /// A further lookup, which also checks the file's owner and size.
  case again
  /// A lookup that never waits for the disk, and is abandoned if anything is unusual or changes concurrently.
  case withoutBlocking

  var mayBlock: Bool { self != .withoutBlocking }
}
