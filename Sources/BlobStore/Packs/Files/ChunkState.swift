/// The state of a chunk and the session that owns it, in one word.
struct ChunkState: RawRepresentable, Hashable, Sendable {
  let rawValue: UInt64

  enum Kind: UInt64, CaseIterable, Sendable {
    /// No record in the chunk is valid.
    case free = 0
    /// The owner stores records in the chunk.
    case open = 1
    /// The chunk accepts no more records.
    case sealed = 2
    /// A collection moves the live records of the chunk.
    case collecting = 3
  }

  init(rawValue: UInt64) { self.rawValue = rawValue }

  /// - Parameter owner: The token of a session, of 56 bits, or 0.
  init(_ kind: Kind, owner: UInt64) {
    assert(owner >> 56 == 0)
    rawValue = owner << 8 | kind.rawValue
  }

  static let free = ChunkState(.free, owner: 0)

  /// The kind, or `nil` for a number that no version writes. Such a chunk is left unchanged.
  var kind: Kind? { Kind(rawValue: rawValue & 0xFF) }

  var owner: UInt64 { rawValue >> 8 }

  func with(_ kind: Kind) -> ChunkState { ChunkState(kind, owner: owner) }
}

/// A class of records that share chunks because they expire together. Classes 0 to 6 depend on the time to live.
struct ChunkClass: RawRepresentable, Hashable, Sendable {
  let rawValue: UInt32

  init(rawValue: UInt32) { self.rawValue = rawValue }

  static let survivors = ChunkClass(rawValue: 7)
  /// Records that are locked, or were stored with a barrier or a full sync. Their headers may be written in place.
  static let durable = ChunkClass(rawValue: 8)
  static let count = 9
}
