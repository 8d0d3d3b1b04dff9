internal import BlobRecord

/// Storage for the last uses of records whose headers cannot be updated in place.
protocol UseNotes: AnyObject, Sendable {
  /// Moves the time of a record's last use forward, without waiting.
  func note(_ use: RecordUse, at now: UnixTime)
}

struct RecordUse: Sendable {
  let notes: any UseNotes
  /// The digest by which `notes` identifies the record.
  let digest: UInt64
  let slot: Int
  let entry: UInt64

  func note(at now: UnixTime) { notes.note(self, at: now) }
}

struct RecordContent {
  let payload: Data
  let extendedData: Data?
  /// The place where the record's use is noted, or `nil` if that is its file.
  let use: RecordUse?

  init(payload: Data, extendedData: Data? = nil, use: RecordUse? = nil) {
    self.payload = payload
    self.extendedData = extendedData
    self.use = use
  }
}

extension RecordExtension {
  var extendedData: Data? { data.isEmpty ? nil : Data(data) }
}

extension RecordNaming {
  /// Returns the contradiction between a stored key and the record's name, if any, in O(*n*) for *n* bytes of key.
  func breach(ofKept key: BlobKey?, inRecordNamed name: String) -> RecordError? {
    guard let key else { return nil }
    // A key without a file name is not the key of any record.
    let own = (try? fileName(for: key)) ?? ""
    guard !own.hasSameBytes(as: name) else { return nil }
    return .keyMismatch(
      stated: NameDigest.digest(ofFileName: own), expected: NameDigest.digest(ofFileName: name))
  }
}

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
