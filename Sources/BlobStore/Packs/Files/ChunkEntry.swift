internal import BlobRecord
internal import Posix
internal import Synchronization

/// A chunk's entry in the shared table of its pack: its owner, its reserved bytes, and hints about its live records.
struct ChunkEntry: Sendable {
  private let pack: PackFile
  private let chunk: Int
  private let offset: Int

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
    // Acquires the writes that preceded the change to this state.
    ChunkState(rawValue: word(Field.stateOffset, UInt64.self) { $0.load(ordering: .acquiring) })
  }

  func compareExchange(_ expected: ChunkState, _ desired: ChunkState) -> Bool {
    word(Field.stateOffset, UInt64.self) {
      // Releases the writes for the new state, and acquires the writes for the old one.
      $0.compareExchange(
        expected: expected.rawValue, desired: desired.rawValue, ordering: .acquiringAndReleasing
      ).exchanged
    }
  }

  /// Takes a free chunk, with four new salts and no record. Returns `false` if the chunk is not free. If the process
  /// is killed in between, the chunk stays open for a dead owner, and no space in it is reserved.
  func take(for chunkClass: ChunkClass, owner: UInt64, sequence: UInt64) -> Bool {
    take(.free, for: chunkClass, owner: owner, sequence: sequence)
  }

  /// Takes an empty spare chunk of a collection. Returns `false` if the chunk is not such a spare.
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
    // Stored last with release ordering, because it makes space available.
    word(Field.inFlightOffset, UInt64.self) { $0.store(0, ordering: .releasing) }
    return true
  }

  /// Seals a free chunk that may contain records nevertheless. Returns `false` if the chunk is not free.
  func sealFree() -> Bool {
    guard compareExchange(.free, ChunkState(.sealed, owner: 0)) else { return false }
    close()
    return true
  }

  /// Seals a chunk for its owner, or for a collection after the owner's death. Returns `false` if it is not open.
  func seal(owner: UInt64) -> Bool {
    let open = ChunkState(.open, owner: owner)
    guard state == open else { return false }
    // Closed before the state changes, so that a process that sees the chunk sealed also sees all in-flight records.
    close()
    return compareExchange(open, open.with(.sealed))
  }

  /// Begins to collect a sealed chunk, or continues after a killed collection. Returns `false` in any other state.
  func beginCollection() -> Bool {
    let state = state
    return state.kind == .collecting || (state.kind == .sealed && compareExchange(state, state.with(.collecting)))
  }

  func endCollection() {
    let state = state
    if state.kind == .collecting { _ = compareExchange(state, state.with(.sealed)) }
  }

  /// Frees a chunk that is being collected, which invalidates its records. Returns `false` for any other chunk.
  func free() -> Bool {
    let state = state
    guard state.kind == .collecting else { return false }
    empty()
    return compareExchange(state, .free)
  }

  /// Invalidates the records of a chunk that is being collected.
  func empty() {
    close()
    pack.deadBits(ofChunk: chunk).forget()
  }
}

// MARK: - Room

/// The in-flight records and the reserved bytes of a chunk, in one word so that both change together.
private struct ChunkRoom {
  let rawValue: UInt64

  init(rawValue: UInt64) { self.rawValue = rawValue }

  init(inFlight: UInt32, end: UInt32) { rawValue = UInt64(end) << 32 | UInt64(inFlight) }

  /// The bit of `end` that prevents further reservations.
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

  /// Changes the word atomically, unless the closure returns `nil`.
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

  /// Reserves space for a record, which counts as in flight until `endFlight`.
  ///
  /// - Parameter limit: The number of bytes up to which a chunk is filled, unless it contains only one record.
  /// - Returns: The offset in the chunk, or `nil` if the chunk is full or is not open for the caller.
  func reserve(_ byteCount: Int, owner: UInt64, within limit: Int = PackLayout.chunkByteCount) -> Int? {
    guard state == ChunkState(.open, owner: owner) else { return nil }
    var place: Int?
    let isReserved = changeRoom { room in
      place = room.isClosed ? nil : PackLayout.place(after: Int(room.end), byteCount: byteCount)
      if let first = place, first > 0, first + byteCount > limit { place = nil }
      return place.map { ChunkRoom(inFlight: room.inFlight &+ 1, end: UInt32($0 + byteCount)) }
    }
    guard isReserved else { return nil }
    // Another session may have taken the chunk after a collection. Once it died, this flight would no longer count.
    guard state.owner == owner else {
      endFlight()
      return nil
    }
    return place
  }

  /// Ends the flight of a record that was published or abandoned, so that its chunk may be collected.
  func endFlight() {
    // Never below 0, because a session that was stopped while its chunk was reused would leave it in use forever.
    _ = changeRoom { $0.inFlight == 0 ? nil : ChunkRoom(inFlight: $0.inFlight - 1, end: $0.end) }
  }

  private func close() {
    _ = changeRoom { $0.isClosed ? nil : ChunkRoom(inFlight: $0.inFlight, end: $0.end | ChunkRoom.closed) }
  }

  /// Extends the reserved bytes to the end of a record, because a power cut may have undone its reservation.
  func noteEnd(_ offset: Int) {
    _ = changeRoom { room in
      guard Int(room.end & ~ChunkRoom.closed) < offset else { return nil }
      return ChunkRoom(inFlight: room.inFlight, end: UInt32(offset) | room.end & ChunkRoom.closed)
    }
  }

  /// The number of reserved records that are not yet published, including records of a dead owner.
  var inFlight: Int { Int(room.inFlight) }

  /// The number of reserved bytes, limited to the size of a chunk.
  var end: Int { min(Int(room.end & ~ChunkRoom.closed), PackLayout.chunkByteCount) }
}

// MARK: - Hints

// The accesses are relaxed, because each hint is independent of other memory.
extension ChunkEntry {
  var chunkClass: ChunkClass {
    ChunkClass(rawValue: word(Field.classOffset, UInt32.self) { $0.load(ordering: .relaxed) })
  }

  /// The last sequence that was issued before the chunk was taken.
  var openingSequence: UInt64 { word(Field.openingSequenceOffset, UInt64.self) { $0.load(ordering: .relaxed) } }

  /// A Boolean value that indicates whether blocks are allocated for the chunk.
  var hasBlocks: Bool { word(Field.blocksOffset, UInt32.self) { $0.load(ordering: .relaxed) } != 0 }

  func noteBlocks(_ hasBlocks: Bool) {
    word(Field.blocksOffset, UInt32.self) { $0.store(hasBlocks ? 1 : 0, ordering: .relaxed) }
  }

  /// An upper bound of the expiry times of the chunk's records, in Unix seconds, or 0 if none expires.
  var latestExpiry: UInt64 { word(Field.latestExpiryOffset, UInt64.self) { $0.load(ordering: .relaxed) } }

  func noteExpiry(_ seconds: UInt64) {
    word(Field.latestExpiryOffset, UInt64.self) {
      // Usually no store is needed, and a cache line that is only read stays in the caches of all processors.
      if $0.load(ordering: .relaxed) < seconds { _ = $0.max(seconds, ordering: .relaxed) }
    }
  }

  /// Lowers the chunk's times of expiry before a record is published, so that no collection that finds the record's
  /// entry skips the chunk.
  func noteLife(ttl: UInt64, update: UInt64) {
    func lower(_ field: Int, to time: UnixTime) {
      word(field, Int64.self) {
        if $0.load(ordering: .relaxed) > time.seconds { _ = $0.min(time.seconds, ordering: .relaxed) }
      }
    }
    let update = UnixTime(seconds: Int64(clamping: update))
    guard ttl != 0 else { return lower(Field.oldestUpdateOffset, to: update) }
    lower(Field.earliestExpiryOffset, to: update.advanced(bySeconds: Int64(clamping: ttl)))
  }

  /// Returns whether a record of the chunk may have expired; always `true` for earlier versions, which stored 0.
  func mayHoldExpired(at now: UnixTime, defaultExpiration: Int64) -> Bool {
    func time(_ field: Int) -> UnixTime {
      UnixTime(seconds: word(field, Int64.self) { $0.load(ordering: .relaxed) })
    }
    return time(Field.earliestExpiryOffset) < now
      || time(Field.oldestUpdateOffset).advanced(bySeconds: defaultExpiration) < now
  }

  var liveByteCount: Int { Int(word(Field.liveByteCountOffset, Int32.self) { $0.load(ordering: .relaxed) }) }

  var liveRecordCount: Int { Int(word(Field.liveRecordCountOffset, Int32.self) { $0.load(ordering: .relaxed) }) }

  /// Adds to the approximate counts of live records and bytes. The arguments are negative for records that died.
  func countLive(records: Int, bytes: Int) {
    word(Field.liveRecordCountOffset, Int32.self) {
      _ = $0.wrappingAdd(Int32(truncatingIfNeeded: records), ordering: .relaxed)
    }
    word(Field.liveByteCountOffset, Int32.self) {
      _ = $0.wrappingAdd(Int32(truncatingIfNeeded: bytes), ordering: .relaxed)
    }
  }
}
