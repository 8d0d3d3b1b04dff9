/// What a chunk is used for, and by which session: one word, which is changed as a whole.
struct ChunkState: RawRepresentable, Hashable, Sendable {
  let rawValue: UInt64

  enum Kind: UInt64, CaseIterable, Sendable {
    /// No record in it counts.
    case free = 0
    /// Its owner puts records into it.
    case open = 1
    /// It takes no more records.
    case sealed = 2
    /// A collection moves what is alive in it.
    case collecting = 3
  }

  init(rawValue: UInt64) { self.rawValue = rawValue }

  /// - Parameter owner: the token of a session, of 56 bits; 0 for none.
  init(_ kind: Kind, owner: UInt64) {
    assert(owner >> 56 == 0)
    rawValue = owner << 8 | kind.rawValue
  }

  static let free = ChunkState(.free, owner: 0)

  /// nil for a number that no version gives, which is left alone.
  var kind: Kind? { Kind(rawValue: rawValue & 0xFF) }

  /// The token of the session that took the chunk.
  var owner: UInt64 { rawValue >> 8 }

  /// The same owner's.
  func with(_ kind: Kind) -> ChunkState { ChunkState(kind, owner: owner) }
}

/// Which records share a chunk, so that they go together: 0 to 6 are by their time to live.
struct ChunkClass: RawRepresentable, Hashable, Sendable {
  let rawValue: UInt32

  init(rawValue: UInt32) { self.rawValue = rawValue }

  /// Records that a collection has moved.
  static let survivors = ChunkClass(rawValue: 7)
  /// Records that are locked, or were stored with a barrier or a full sync. Their headers may be written in place.
  static let durable = ChunkClass(rawValue: 8)
  static let count = 9
}
