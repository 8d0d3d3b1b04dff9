internal import BlobRecord
internal import Posix

/// Small records that are stored together: their keys are held at once, and one call writes them all.
///
/// The order of stripes is that of the holds. So two batches never wait for each other; and a batch waits for nobody. What
/// cannot be had at once is left to a store of its own.
struct PackedBatch {
  /// The most records of a batch. Other changes of their stripes wait for it.
  static let greatestCount = 256

  private let publisher: Publisher
  private let open: OpenRoot
  private var records: PackRecords
  private var members: [Member] = []

  /// A record whose key is held, and which has its room.
  private final class Member {
    let candidate: Candidate
    let header: RecordHeader
    let level: BlobStore.Durability.Level
    let predecessor: PackedPredecessor
    let exceeding: BlobStore.UsageEstimate?
    let room: PackRoom
    var hold: KeyHold
    private let sizeBefore: RecordSize?
    var isPublished = false

    init(
      _ candidate: Candidate, _ header: RecordHeader, _ level: BlobStore.Durability.Level,
      _ predecessor: PackedPredecessor, sizeBefore: RecordSize?, exceeding: BlobStore.UsageEstimate?,
      _ room: consuming PackRoom, _ hold: consuming KeyHold
    ) {
      self.candidate = candidate
      self.header = header
      self.level = level
      self.predecessor = predecessor
      self.sizeBefore = sizeBefore
      self.exceeding = exceeding
      self.room = room
      self.hold = hold
    }

    var size: RecordSize { RecordSize(bytes: header.fileByteCount, isLocked: header.isLocked) }

    deinit { if !isPublished { hold.count(from: size, to: sizeBefore) } }
  }

  /// A record that may be stored with others.
  struct Candidate {
    /// Of the blob among those of the call.
    let index: Int
    let path: RecordPath
    /// As it is asked for: the locks of the record that it replaces may come to it.
    let header: RecordHeader
    let payload: Data
    let tail: [UInt8]

    var stripe: Int { ControlLayout.stripe(of: path.digest) }
  }

  /// What became of records.
  struct Outcome {
    var stored: [Stored] = []
    /// Those whose publication failed, so that readers may have seen them.
    var failed: [(index: Int, error: any Error)] = []
  }

  /// A record that is stored.
  struct Stored {
    let index: Int
    let path: RecordPath
    let header: RecordHeader
    /// What the directory holds, if that is too much.
    let exceeding: BlobStore.UsageEstimate?
  }

  init(_ publisher: Publisher, _ records: PackRecords, in open: OpenRoot) {
    self.publisher = publisher
    self.records = records
    self.open = open
  }

  private var core: StoreCore { publisher.core }

  /// Stores records.
  ///
  /// - Returns: what became of those that were published. The others have to be stored alone.
  /// - Throws: with none of them published.
  mutating func store(_ candidates: [Candidate], locks: BlobStore.LockPolicy) throws -> Outcome {
    // With them, the keys are let go.
    defer { members = [] }
    members.reserveCapacity(candidates.count)
    // Of two with one stripe, the first takes it, and the second is stored alone after it.
    for candidate in candidates.sorted(by: { ($0.stripe, $0.index) < ($1.stripe, $1.index) }) {
      if let member = try member(candidate, locks) { members.append(member) }
    }
    try write()
    var outcome = Outcome()
    for member in members { publish(member, &outcome) }
    return outcome
  }

  /// - Returns: nil for a record that has to be stored alone.
  private mutating func member(_ candidate: Candidate, _ locks: BlobStore.LockPolicy) throws -> Member? {
    let path = candidate.path
    records.packs.prefetch(forChangeOf: path.digest)
    guard let hold = try core.holdIfAvailable(path.digest, makesControlFile: true) else { return nil }
    let found = try publisher.recordToReplace(at: path, records, of: open, by: RecordJudge(), hold)
    let before = Predecessor(found)
    var header = candidate.header
    header.refCount = locks.refCount(replacing: before?.refCount ?? 0)
    let level = core.configuration.durability.level(concernsLock: header.isLocked || before?.size.isLocked ?? false)
    let size = RecordSize(bytes: header.fileByteCount, isLocked: header.isLocked)
    guard
      case .counted(let exceeding) = hold.countAhead(from: before?.size, to: size, within: publisher.keeper?.limit)
    else { return nil }
    let reserved: PackRoom?
    do {
      reserved = try records.room(for: header, path, isDurable: header.isLocked || level > .none)
    } catch {
      hold.count(from: size, to: before?.size)
      throw error
    }
    guard let room = reserved else {
      hold.count(from: size, to: before?.size)
      return nil
    }
    return Member(
      candidate, header, level, PackedPredecessor(found), sizeBefore: before?.size, exceeding: exceeding, room, hold)
  }

  // MARK: Writing

  /// Writes all records: those that follow each other in a chunk by one call. For a durable one, its pack is synced.
  private func write() throws {
    do {
      var start = 0
      while start < members.count {
        var end = start + 1
        while end < members.count, follows(members[end].room, members[end - 1].room) { end += 1 }
        try write(members[start..<end])
        start = end
      }
      var synced: Set<Int> = []
      for member in members where member.level > .none && synced.insert(member.room.address.pack).inserted {
        try records.synchronize(member.room)
      }
    } catch {
      var records = records
      for member in members { try records.finish(&member.hold) }
      throw error
    }
  }

  private func follows(_ room: borrowing PackRoom, _ before: borrowing PackRoom) -> Bool {
    let (address, last) = (room.address, before.address)
    return address.pack == last.pack && address.chunk == last.chunk
      && address.offset == PackLayout.firstPlace(from: last.offset + before.byteCount)
  }

  private func write(_ run: ArraySlice<Member>) throws {
    guard let first = run.first, let last = run.last else { return }
    let start = first.room.address.offset
    let byteCount = last.room.address.offset + last.room.byteCount - start
    try unsafe withUnsafeTemporaryAllocation(byteCount: byteCount, alignment: 8) { buffer in
      var end = 0
      for member in run {
        let begin = member.room.address.offset - start
        // Nothing lies between two records that follow each other, but for the rest of a sector.
        unsafe UnsafeMutableRawBufferPointer(rebasing: buffer[end..<begin]).initializeMemory(
          as: UInt8.self, repeating: 0)
        end = begin + member.room.byteCount
        records.announce(member.room, member.predecessor, member.hold)
        let (payload, tail) = (member.candidate.payload, member.candidate.tail)
        try unsafe records.encode(
          member.header, payload.bytes, tail.span.bytes, as: member.candidate.path, in: member.room,
          into: UnsafeMutableRawBufferPointer(rebasing: buffer[begin..<end]))
      }
      try first.room.pack.write(unsafe RawSpan(_unsafeBytes: UnsafeRawBufferPointer(buffer)), at: first.room.address)
    }
  }

  /// One that finds the index full stays unpublished.
  private mutating func publish(_ member: Member, _ outcome: inout Outcome) {
    publisher.keeper?.willStore(member.candidate.path.digest)
    let candidate = member.candidate
    do {
      try records.publishWritten(
        member.header, as: candidate.path, in: member.room, replacing: member.predecessor, member.level, &member.hold)
      member.isPublished = true
      try records.synchronizeUnlinks(of: candidate.path, member.level, member.hold)
      outcome.stored.append(
        Stored(index: candidate.index, path: candidate.path, header: member.header, exceeding: member.exceeding))
    } catch is IndexIsFull {
    } catch {
      outcome.failed.append((candidate.index, error))
    }
  }
}
