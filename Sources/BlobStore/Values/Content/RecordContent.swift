internal import BlobRecord

/// What notes the uses of records that have no headers of their own to write to.
protocol UseNotes: AnyObject, Sendable {
  /// Moves the time of a record's last use, never back. Waits for nothing.
  func note(_ use: RecordUse, at now: UnixTime)
}

/// Where the use of a record is noted.
struct RecordUse: Sendable {
  let notes: any UseNotes
  /// What the notes know the record by.
  let digest: UInt64
  let slot: Int
  let entry: UInt64

  func note(at now: UnixTime) { notes.note(self, at: now) }
}

/// What a load takes from behind a header.
struct RecordContent {
  let payload: Data
  /// nil if none were stored.
  let extendedData: Data?
  /// Where its use is noted, if not in its file.
  let use: RecordUse?

  init(payload: Data, extendedData: Data? = nil, use: RecordUse? = nil) {
    self.payload = payload
    self.extendedData = extendedData
    self.use = use
  }
}

extension RecordExtension {
  /// The extended data; nil if there are none.
  var extendedData: Data? { data.isEmpty ? nil : Data(data) }
}

extension RecordNaming {
  /// How a key that a record keeps contradicts the record's name; nil if it does not, or none is kept.
  ///
  /// - Complexity: O(*n*) for *n* bytes of key.
  func breach(ofKept key: BlobKey?, inRecordNamed name: String) -> RecordError? {
    guard let key else { return nil }
    // A key without a name is no key of any record.
    let own = (try? fileName(for: key)) ?? ""
    guard !own.hasSameBytes(as: name) else { return nil }
    return .keyMismatch(
      stated: NameDigest.digest(ofFileName: own), expected: NameDigest.digest(ofFileName: name))
  }
}
