internal import BlobRecord
internal import Posix

/// A batch of small records that are written by one call while all their keys are held.
///
/// Keys are only held if that is possible without waiting, in the order of their stripes, so that batches never wait
/// for each other. Other records are left to separate stores.
struct PackedBatch {
  /// The maximum number of records in a batch. Other changes of their stripes wait for it.
  static let greatestCount = 256

  private let open: OpenRoot
  private let limit: StoreLimit?
  private var records: PackRecords
  private var members: [Member] = []

  /// A counted record whose key is held and whose space is reserved.
  private final class Member {
    let candidate: Candidate
    let pending: PendingStore
    let level: BlobStore.Durability.Level
    let predecessor: PackedPredecessor
    let exceeding: BlobStore.UsageEstimate?
    let room: PackRoom
    var transaction: KeyTransaction
    private let sizeBefore: RecordSize?
    var isPublished = false

    init(
      _ candidate: Candidate, _ pending: consuming PendingStore, _ level: BlobStore.Durability.Level,
      _ predecessor: PackedPredecessor, sizeBefore: RecordSize?, exceeding: BlobStore.UsageEstimate?,
      _ room: consuming PackRoom, _ transaction: consuming KeyTransaction
    ) {
      self.candidate = candidate
      self.pending = pending
      self.level = level
      self.predecessor = predecessor
      self.sizeBefore = sizeBefore
      self.exceeding = exceeding
      self.room = room
      self.transaction = transaction
    }

    deinit { transaction.hold.endCount(from: sizeBefore, to: pending.size, isInPlace: isPublished) }
  }

  struct Candidate {
    /// The index of the blob in the call.
    let index: Int
    let path: RecordPath
    /// The requested header. The locks of the replaced record may be added to it.
    let header: RecordHeader
    let locks: BlobStore.LockPolicy
    let payload: Data
    let tail: [UInt8]

    var stripe: Int { ControlLayout.stripe(of: path.digest) }

    func withBody(_ body: (PackedBody) throws -> Void) rethrows {
      try unsafe payload.withUnsafeBytes { payload in
        try unsafe tail.withUnsafeBytes { tail in try unsafe body(PackedBody(payload: payload, tail: tail)) }
      }
    }
  }

  struct Results {
    var stored: [Stored] = []
    /// The records whose publication failed. Readers may have seen them nevertheless.
    var failed: [(index: Int, error: any Error)] = []
  }

  struct Stored {
    let index: Int
    let path: RecordPath
    let header: RecordHeader
    /// The usage of the directory, if it exceeds a limit.
    let exceeding: BlobStore.UsageEstimate?
  }

  /// Returns `nil` if records of the directory are not packed.
  ///
  /// - Parameters:
  ///   - open: A directory for stores, from `Publisher.madeRoot`.
  ///   - limit: The limit of the directory, or `nil` if stores start no collections.
  init?(of core: StoreCore, in open: OpenRoot, within limit: StoreLimit?) throws {
    guard open.packing?.bound != nil, let records = try Records(core).madePacks(of: open) else { return nil }
    self.open = open
    self.limit = limit
    self.records = records
  }

  private var core: StoreCore { records.core }

  /// Enlarges the index if it is nearly full. No key may be held.
  func growIfDue() { _ = records.growIfDue() }

  /// Stores records, and returns the published ones. The others must be stored separately. Throws before publication.
  ///
  /// - Parameter willPublish: A closure that is called with the digest of each record before it is published.
  mutating func store(_ candidates: [Candidate], willPublish: (UInt64) -> Void) throws -> Results {
    // Removing the members releases the keys.
    defer { members = [] }
    members.reserveCapacity(candidates.count)
    // If two records share a stripe, the first takes it, and the second is stored separately afterwards.
    for candidate in candidates.sorted(by: { ($0.stripe, $0.index) < ($1.stripe, $1.index) })
    where Records(core).belongsInPack(candidate.header, at: candidate.path, in: open) {
      if let member = try member(candidate) { members.append(member) }
    }
    try write()
    var results = Results()
    for member in members {
      willPublish(member.candidate.path.digest)
      publish(member, &results)
    }
    return results
  }

  /// Prepares a record, or returns `nil` if it must be stored separately.
  private mutating func member(_ candidate: Candidate) throws -> Member? {
    let path = candidate.path
    records.packs.prefetch(forChangeOf: path.digest)
    guard let hold = try Records(core).holdIfAvailable(path.digest, makesControlFile: true) else { return nil }
    let transaction = KeyTransaction(path, in: open, Records(core), hold)
    var pending = PendingStore(candidate.header, locks: candidate.locks, if: nil, within: limit)
    let found = try Records(core).recordToReplace(transaction, records, by: RecordJudge())
    let before = Predecessor(found)
    let level = try transaction.inherit(from: before, &pending).level
    guard case .counted(let exceeding) = transaction.count(pending, over: before?.size) else { return nil }
    let reserved: PackRoom?
    do {
      reserved = try records.room(for: pending.header, path, isDurable: pending.header.isLocked || level > .none)
    } catch {
      transaction.hold.endCount(from: before?.size, to: pending.size, isInPlace: false)
      throw error
    }
    guard let room = reserved else {
      transaction.hold.endCount(from: before?.size, to: pending.size, isInPlace: false)
      return nil
    }
    return Member(
      candidate, pending, level, PackedPredecessor(found), sizeBefore: before?.size, exceeding: exceeding, room,
      transaction)
  }

  // MARK: Writing

  /// Writes each run of adjacent records of a chunk with one call, and syncs the packs of durable records.
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
      for member in members {
        try records.finish(&member.transaction.hold)
        member.isPublished = try records.isCurrent(member.candidate.path, at: member.room.address)
      }
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
        // Only the padding to a sector separates adjacent records.
        unsafe UnsafeMutableRawBufferPointer(rebasing: buffer[end..<begin]).initializeMemory(
          as: UInt8.self, repeating: 0)
        end = begin + member.room.byteCount
        records.announce(member.room, member.predecessor, member.level, .store, &member.transaction.hold)
        try member.candidate.withBody { body in
          try unsafe records.encode(
            member.pending.header, body, as: member.candidate.path, in: member.room,
            into: UnsafeMutableRawBufferPointer(rebasing: buffer[begin..<end]))
        }
      }
      try first.room.pack.write(unsafe RawSpan(_unsafeBytes: UnsafeRawBufferPointer(buffer)), at: first.room.address)
    }
  }

  /// Publishes a record, unless the index is full.
  private mutating func publish(_ member: Member, _ results: inout Results) {
    let candidate = member.candidate
    do {
      try records.publishWritten(
        member.pending.header, as: candidate.path, in: member.room, replacing: member.predecessor, .store,
        &member.transaction.hold)
      member.isPublished = true
      try afterPublication {
        try records.synchronizeUnlinks(of: candidate.path, member.level)
      }
      results.stored.append(
        Stored(index: candidate.index, path: candidate.path, header: member.pending.header, exceeding: member.exceeding)
      )
    } catch is IndexIsFull {
    } catch {
      member.isPublished = error is Published
      results.failed.append((candidate.index, error))
    }
  }
}
