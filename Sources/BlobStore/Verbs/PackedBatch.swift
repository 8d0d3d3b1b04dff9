internal import BlobRecord
internal import Posix

/// A batch of small records that are written by one call while all their keys are held.
///
/// Keys are only held if that is possible without waiting, in the order of their stripes, so that batches never wait
/// for each other. Other records are left to separate stores.
struct PackedBatch {
  /// The maximum number of records in a batch. Other changes of their stripes wait for it.
  static let greatestCount = 256

  private let publisher: Publisher
  private let open: OpenRoot
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
    var path: RecordPath
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

  init(_ publisher: Publisher, _ records: PackRecords, in open: OpenRoot) {
    self.publisher = publisher
    self.records = records
    self.open = open
  }

  private var core: StoreCore { publisher.core }

  /// Stores records, and returns the published ones. The others must be stored separately. Throws before publication.
  mutating func store(_ candidates: [Candidate]) throws -> Results {
    // Removing the members releases the keys.
    defer { members = [] }
    members.reserveCapacity(candidates.count)
    // If two records share a stripe, the first takes it, and the second is stored separately afterwards.
    for candidate in candidates.sorted(by: { ($0.stripe, $0.index) < ($1.stripe, $1.index) }) {
      if let member = try member(candidate) { members.append(member) }
    }
    try write()
    var results = Results()
    for member in members { publish(member, &results) }
    return results
  }

  /// Prepares a record, or returns `nil` if it must be stored separately.
  private mutating func member(_ candidate: Candidate) throws -> Member? {
    let digest = candidate.path.digest
    records.packs.prefetch(forChangeOf: digest)
    guard let hold = try Records(core).holdIfAvailable(digest, makesControlFile: true) else { return nil }
    let transaction = try Records(core).transaction(of: candidate.path, in: open, hold)
    var candidate = candidate
    candidate.path = transaction.path
    var pending = publisher.pendingStore(candidate.header, locks: candidate.locks, if: nil)
    let found = try records.recordToReplace(transaction, by: RecordJudge())
    let before = Predecessor(found)
    let level = try transaction.inherit(from: before, &pending).level
    guard case .counted(let exceeding) = transaction.count(pending, over: before?.size) else { return nil }
    let reserved: PackRoom?
    do {
      let isDurable = pending.header.isLocked || level > .none
      reserved = try records.room(for: pending.header, candidate.path, isDurable: isDurable)
    } catch {
      transaction.hold.endCount(from: before?.size, to: pending.size, isInPlace: false)
      throw error
    }
    guard let room = reserved else {
      transaction.hold.endCount(from: before?.size, to: pending.size, isInPlace: false)
      return nil
    }
    return Member(
      candidate, pending, level, PackedPredecessor(before), sizeBefore: before?.size, exceeding: exceeding, room,
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
    publisher.enforcer?.willStore(member.candidate.path.digest)
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

// MARK: - From blobs to candidates

extension Publisher {
  /// Stores a batch of small blobs, as far as that is possible without waiting, and returns the published ones. The
  /// others must be stored separately, which reports any error.
  func publishTogether(
    _ blobs: ArraySlice<(key: BlobKey, payload: Data)>, ttl: Duration?, locks: BlobStore.LockPolicy
  ) -> PackedBatch.Results {
    guard core.configuration.mayPack, blobs.count > 1 else { return PackedBatch.Results() }
    do {
      let open = try madeRoot()
      guard open.packing != .off else { return PackedBatch.Results() }
      let candidates = candidates(blobs, in: open, ttl: ttl, locks: locks)
      guard let records = try Records(core).madePacks(of: open) else { return PackedBatch.Results() }
      var batch = PackedBatch(self, records, in: open)
      let results = try batch.store(candidates)
      // The keys have been released, because subsequent work may need them.
      for record in results.stored { didStore(record.header, at: record.path, of: open, exceeding: record.exceeding) }
      _ = records.growIfDue()
      return results
    } catch {
      // Nothing is published. The separate store of each blob fails again, or succeeds.
      return PackedBatch.Results()
    }
  }

  private func candidates(
    _ blobs: ArraySlice<(key: BlobKey, payload: Data)>, in open: OpenRoot, ttl: Duration?,
    locks: BlobStore.LockPolicy
  ) -> [PackedBatch.Candidate] {
    zip(blobs.indices, blobs).compactMap { index, blob in
      // The separate store of an invalid blob reports the error.
      guard Records(core).mayPack(payloadOf: Int64(blob.payload.count)), let path = try? core.path(for: blob.key) else {
        return nil
      }
      return try? candidate(index, blob.key, blob.payload, open.placed(path), in: open, ttl: ttl, locks: locks)
    }
  }

  /// Returns a candidate for a blob, or `nil` if the blob is not packed.
  private func candidate(
    _ index: Int, _ key: BlobKey, _ payload: Data, _ path: RecordPath, in open: OpenRoot, ttl: Duration?,
    locks: BlobStore.LockPolicy
  ) throws -> PackedBatch.Candidate? {
    try Records(core).checkSize(Int64(payload.count))
    var header = try newHeader(ttl: ttl, locks: locks)
    header.payloadSize = UInt64(payload.count)
    header.payloadChecksum = CRC32.checksum(of: payload.bytes)
    header.keyDigest = path.digest
    let tail = try Records(core).newExtension(of: key, at: path, nil)?.encoded ?? []
    header.extensionEnd = tail.isEmpty ? nil : UInt32(tail.count)
    guard Records(core).belongsInPack(header, at: path, in: open) else { return nil }
    return PackedBatch.Candidate(
      index: index, path: path, header: header, locks: locks, payload: payload, tail: tail)
  }
}
