internal import BlobRecord
internal import Posix
internal import Synchronization

/// A chunk's entry in the table of its pack: who puts records into it, where the next one goes, and what is alive.
///
/// All of it is in memory that processes share. The counts of live records and bytes are hints.
struct ChunkEntry: Sendable {
  private let pack: PackFile
  private let chunk: Int
  private let offset: Int

  /// - Parameter chunk: 0 to 1023.
  init(_ pack: PackFile, _ chunk: Int) {
    precondition(0..<PackLayout.chunkCount ~= chunk, "chunk \(chunk)")
    self.pack = pack
    self.chunk = chunk
    offset = PackLayout.tableEntryOffset(ofChunk: chunk)
  }

  private typealias Field = PackLayout.TableEntry

  @inline(__always)
  private func word<Word: AtomicRepresentable, Result>(
    _ field: Int, _ type: Word.Type, _ body: (borrowing Atomic<Word>) -> Result
  ) -> Result {
    pack.head.withWord(at: offset + field, as: type, body)
  }
}

// MARK: - State

extension ChunkEntry {
  var state: ChunkState {
    // Acquires what the change to this state has written before it.
    ChunkState(rawValue: word(Field.stateOffset, UInt64.self) { $0.load(ordering: .acquiring) })
  }

  /// - Returns: false, with nothing changed, if it is in another state.
  func compareExchange(_ expected: ChunkState, _ desired: ChunkState) -> Bool {
    word(Field.stateOffset, UInt64.self) {
      // Releases what was written for the new state, and acquires what was written for the old one.
      $0.compareExchange(
        expected: expected.rawValue, desired: desired.rawValue, ordering: .acquiringAndReleasing
      ).exchanged
    }
  }

  /// Takes a free chunk, with four new salts and no record.
  ///
  /// Killed in between, the session leaves an open chunk of a dead owner, which gives nothing out.
  ///
  /// - Parameters:
  ///   - owner: the session's token.
  ///   - sequence: the last one that was given to a record.
  /// - Returns: false if it is not free any more.
  func take(for chunkClass: ChunkClass, owner: UInt64, sequence: UInt64) -> Bool {
    take(.free, for: chunkClass, owner: owner, sequence: sequence)
  }

  /// Takes an empty chunk that a collection has kept for itself.
  ///
  /// - Returns: false if the chunk is not such a spare.
  func takeSpare(for chunkClass: ChunkClass, owner: UInt64, sequence: UInt64) -> Bool {
    take(.collecting, for: chunkClass, owner: owner, sequence: sequence)
  }

  private func take(
    _ kind: ChunkState.Kind, for chunkClass: ChunkClass, owner: UInt64, sequence: UInt64
  ) -> Bool {
    let state = state
    guard state.kind == kind, compareExchange(state, ChunkState(.open, owner: owner)) else { return false }
    pack.deadBits(ofChunk: chunk).renew()
    word(Field.classOffset, UInt32.self) { $0.store(chunkClass.rawValue, ordering: .relaxed) }
    word(Field.liveByteCountOffset, Int32.self) { $0.store(0, ordering: .relaxed) }
    word(Field.liveRecordCountOffset, Int32.self) { $0.store(0, ordering: .relaxed) }
    word(Field.latestExpiryOffset, UInt64.self) { $0.store(0, ordering: .relaxed) }
    word(Field.openingSequenceOffset, UInt64.self) { $0.store(sequence, ordering: .relaxed) }
    word(Field.earliestExpiryOffset, Int64.self) { $0.store(.max, ordering: .relaxed) }
    word(Field.oldestUpdateOffset, Int64.self) { $0.store(.max, ordering: .relaxed) }
    // The last, with all before it: from here on there is room.
    word(Field.inFlightOffset, UInt64.self) { $0.store(0, ordering: .releasing) }
    return true
  }

  /// Seals a free chunk in which records may lie all the same.
  ///
  /// - Returns: false if it is not free any more.
  func sealFree() -> Bool {
    guard compareExchange(.free, ChunkState(.sealed, owner: 0)) else { return false }
    close()
    return true
  }

  /// Ends an open chunk: its owner, or a collection once the owner is dead.
  ///
  /// - Returns: false if it is not open for that owner any more.
  func seal(owner: UInt64) -> Bool {
    let open = ChunkState(.open, owner: owner)
    guard state == open else { return false }
    // Before the state, so that a process which sees the chunk sealed finds all that is in flight counted.
    close()
    return compareExchange(open, open.with(.sealed))
  }

  /// Begins to collect a sealed chunk, or goes on where another collection was killed. Its owner stays known.
  ///
  /// - Returns: false if it is neither sealed nor being collected.
  func beginCollection() -> Bool {
    let state = state
    return state.kind == .collecting || (state.kind == .sealed && compareExchange(state, state.with(.collecting)))
  }

  /// Leaves a chunk that is being collected as a sealed one.
  func endCollection() {
    let state = state
    if state.kind == .collecting { _ = compareExchange(state, state.with(.sealed)) }
  }

  /// Frees a chunk that is being collected. No record of it counts from here on.
  ///
  /// - Returns: false if it is not being collected.
  func free() -> Bool {
    let state = state
    guard state.kind == .collecting else { return false }
    empty()
    return compareExchange(state, .free)
  }

  /// Forgets the records of a chunk that is being collected. No record of it counts from here on.
  func empty() {
    close()
    pack.deadBits(ofChunk: chunk).forget()
  }
}

// MARK: - Room

/// How many records have room and are not yet published, and the bytes given out: one word, so that both change at once.
private struct ChunkRoom {
  let rawValue: UInt64

  init(rawValue: UInt64) { self.rawValue = rawValue }

  init(inFlight: UInt32, end: UInt32) { rawValue = UInt64(end) << 32 | UInt64(inFlight) }

  /// In the bytes given out, it says that no more are.
  static let closed: UInt32 = 1 << 31

  var inFlight: UInt32 { UInt32(truncatingIfNeeded: rawValue) }
  var end: UInt32 { UInt32(truncatingIfNeeded: rawValue >> 32) }
  var isClosed: Bool { end & Self.closed != 0 }
}

extension ChunkEntry {
  private var room: ChunkRoom {
    // Acquires the salts of a chunk that was just taken.
    ChunkRoom(rawValue: word(Field.inFlightOffset, UInt64.self) { $0.load(ordering: .acquiring) })
  }

  /// Changes the word of the room, until no other thread comes between.
  ///
  /// - Parameter change: nil to leave it.
  @inline(__always)
  private func changeRoom(_ change: (ChunkRoom) -> ChunkRoom?) -> Bool {
    var current = room
    while let changed = change(current) {
      let (exchanged, original) = word(Field.inFlightOffset, UInt64.self) {
        // Releases a published record to a collection that finds nothing in flight.
        $0.weakCompareExchange(
          expected: current.rawValue, desired: changed.rawValue, ordering: .acquiringAndReleasing)
      }
      if exchanged { return true }
      current = ChunkRoom(rawValue: original)
    }
    return false
  }

  /// Sets room aside for a record, which counts as in flight until `endFlight`.
  ///
  /// - Parameters:
  ///   - byteCount: what the record takes in its chunk.
  ///   - owner: the caller's token. Another session's chunk gives it nothing.
  ///   - limit: bytes that a chunk with more than one record may take.
  /// - Returns: the offset in the chunk; nil if the chunk is full, or is not open for the caller.
  func reserve(_ byteCount: Int, owner: UInt64, within limit: Int = PackLayout.chunkByteCount) -> Int? {
    guard state == ChunkState(.open, owner: owner) else { return nil }
    var place: Int?
    let isReserved = changeRoom { room in
      place = room.isClosed ? nil : PackLayout.place(after: Int(room.end), byteCount: byteCount)
      if let first = place, first > 0, first + byteCount > limit { place = nil }
      return place.map { ChunkRoom(inFlight: room.inFlight &+ 1, end: UInt32($0 + byteCount)) }
    }
    guard isReserved else { return nil }
    // The chunk may have been collected and taken by another session just before. The owner's death would end what is in
    // flight there.
    guard state.owner == owner else {
      endFlight()
      return nil
    }
    return place
  }

  /// A record is published, or given up: its chunk may be collected.
  func endFlight() {
    // Never below 0: a session that was stopped through two lives of a chunk would make it seem to be in use for ever.
    _ = changeRoom { $0.inFlight == 0 ? nil : ChunkRoom(inFlight: $0.inFlight - 1, end: $0.end) }
  }

  /// Gives nothing out from now on.
  private func close() {
    _ = changeRoom { $0.isClosed ? nil : ChunkRoom(inFlight: $0.inFlight, end: $0.end | ChunkRoom.closed) }
  }

  /// Counts bytes as given out in which a record was found. After a power cut, the table may say less than the chunk has.
  func noteEnd(_ offset: Int) {
    _ = changeRoom { room in
      guard Int(room.end & ~ChunkRoom.closed) < offset else { return nil }
      return ChunkRoom(inFlight: room.inFlight, end: UInt32(offset) | room.end & ChunkRoom.closed)
    }
  }

  /// The records that have room and are not yet published. Those of a dead owner stay counted.
  var inFlight: Int { Int(room.inFlight) }

  /// The bytes given out so far: never more than the chunk has.
  var end: Int { min(Int(room.end & ~ChunkRoom.closed), PackLayout.chunkByteCount) }
}

// MARK: - Hints

// Relaxed: each is a number by itself, and orders nothing.
extension ChunkEntry {
  var chunkClass: ChunkClass {
    ChunkClass(rawValue: word(Field.classOffset, UInt32.self) { $0.load(ordering: .relaxed) })
  }

  /// The last sequence that was given to a record before the chunk was taken.
  var openingSequence: UInt64 { word(Field.openingSequenceOffset, UInt64.self) { $0.load(ordering: .relaxed) } }

  /// Whether the volume has set its blocks aside.
  var hasBlocks: Bool { word(Field.blocksOffset, UInt32.self) { $0.load(ordering: .relaxed) } != 0 }

  func noteBlocks(_ hasBlocks: Bool) {
    word(Field.blocksOffset, UInt32.self) { $0.store(hasBlocks ? 1 : 0, ordering: .relaxed) }
  }

  /// No record expires later, in Unix seconds; 0 if none expires.
  var latestExpiry: UInt64 { word(Field.latestExpiryOffset, UInt64.self) { $0.load(ordering: .relaxed) } }

  /// A record of the chunk expires then, in Unix seconds.
  func noteExpiry(_ seconds: UInt64) {
    word(Field.latestExpiryOffset, UInt64.self) {
      // Most are no later than one before: a line that is only read stays in the caches of all processors.
      if $0.load(ordering: .relaxed) < seconds { _ = $0.max(seconds, ordering: .relaxed) }
    }
  }

  /// A record is about to be published in the chunk. The time at which it is due is noted before, so that no collection that
  /// finds its entry passes the chunk over.
  ///
  /// - Parameters:
  ///   - ttl: as its header has it.
  ///   - update: its update time, in Unix seconds.
  func noteLife(ttl: UInt64, update: UInt64) {
    func lower(_ field: Int, to time: UnixTime) {
      word(field, Int64.self) {
        // Most are no earlier than one before: a line that is only read stays in the caches of all processors.
        if $0.load(ordering: .relaxed) > time.seconds { _ = $0.min(time.seconds, ordering: .relaxed) }
      }
    }
    let update = UnixTime(seconds: Int64(clamping: update))
    guard ttl != 0 else { return lower(Field.oldestUpdateOffset, to: update) }
    lower(Field.earliestExpiryOffset, to: update.advanced(bySeconds: Int64(clamping: ttl)))
  }

  /// Whether a record of the chunk may have expired. The chunk of an earlier program always may have such records: it says 0.
  ///
  /// - Parameter defaultExpiration: seconds after its last use in which a record without a ttl expires.
  func mayHoldExpired(at now: UnixTime, defaultExpiration: Int64) -> Bool {
    func time(_ field: Int) -> UnixTime {
      UnixTime(seconds: word(field, Int64.self) { $0.load(ordering: .relaxed) })
    }
    return time(Field.earliestExpiryOffset) < now
      || time(Field.oldestUpdateOffset).advanced(bySeconds: defaultExpiration) < now
  }

  /// Bytes of live records, about.
  var liveByteCount: Int { Int(word(Field.liveByteCountOffset, Int32.self) { $0.load(ordering: .relaxed) }) }

  /// Live records, about.
  var liveRecordCount: Int { Int(word(Field.liveRecordCountOffset, Int32.self) { $0.load(ordering: .relaxed) }) }

  /// Counts records that came alive, or died.
  ///
  /// - Parameters:
  ///   - records: below 0 for those that died.
  ///   - bytes: what they take in the chunk; below 0 too.
  func countLive(records: Int, bytes: Int) {
    word(Field.liveRecordCountOffset, Int32.self) {
      _ = $0.wrappingAdd(Int32(truncatingIfNeeded: records), ordering: .relaxed)
    }
    word(Field.liveByteCountOffset, Int32.self) {
      _ = $0.wrappingAdd(Int32(truncatingIfNeeded: bytes), ordering: .relaxed)
    }
  }
}
