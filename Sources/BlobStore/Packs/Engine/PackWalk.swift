internal import BlobRecord
internal import Posix

/// A walk over the records that the index leads to, chunk by chunk: each chunk is read by one call.
///
/// A change may move a record meanwhile: to a chunk behind, which the walk comes to, or to one before, which it has passed.
/// The record keeps its slot of the index. So the walk notes the slots that it has met, and meets none twice. In the end
/// `beginSweep` goes once more over the chunks that have got records since they were read.
///
/// If the index is made anew during the walk, slots are new, and records of such chunks are met again.
@safe final class PackWalk {
  /// A record that the walk meets.
  struct Met {
    let address: PackAddress
    /// `NameDigest` of the file name.
    let digest: UInt64
    /// nil if the record's header is damaged, but for the name.
    let finding: PackedFinding?
    /// From the chunk's begin.
    fileprivate let nameRange: Range<Int>
  }

  /// The packs, with the index that was in force when the chunk was read.
  private(set) var records: PackRecords
  private var packs: [PackFile]
  /// The chunk that comes next.
  private var (nextPack, nextChunk) = (0, 0)
  /// Lower addresses are left out.
  private let start: PackAddress
  private var met: SlotSet
  /// How chunks were when they were read.
  private var looks: [PackAddress: ChunkLook] = [:]
  private var isSweep = false
  /// Asked for each chunk before it is read.
  var passesOver: ((ChunkEntry) -> Bool)?
  /// Whether a chunk with records was passed over.
  private(set) var hasPassedOver = false

  private let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: PackLayout.chunkByteCount, alignment: 8)
  /// The chunk in the buffer; nil at its end.
  private var chunk: ChunkWalk?
  private var (packNumber, chunkNumber) = (0, 0)
  private var byteCount = 0
  /// Where the record that was found last ends.
  private var end = 0
  /// Bytes before the record in hand that are no record.
  private var gap = 0..<0
  private var record: PackedRecord?
  private var last: Met?

  /// - Parameter start: the first address that is met, as `position` of an earlier walk has it; any number.
  init(_ records: PackRecords, from start: UInt64 = 0) throws {
    self.records = records
    self.start = PackAddress(rawValue: start)
    met = SlotSet(of: records.packs.index)
    packs = try records.packs.files.all()
    seek()
  }

  deinit { unsafe buffer.deallocate() }

  private func seek() {
    nextPack = packs.firstIndex { $0.number >= start.pack } ?? packs.count
    nextChunk = packs.indices.contains(nextPack) && packs[nextPack].number == start.pack ? start.chunk : 0
  }

  /// Goes once more over the chunks that have got records since they were read, for those that were not met.
  func beginSweep() throws {
    packs = try records.packs.files.all()
    (nextPack, nextChunk, isSweep) = (0, 0, true)
  }

  /// Where another walk goes on, behind the record that was met last.
  var position: UInt64 { last.map { $0.address.rawValue + 1 } ?? start.rawValue }

  /// The path of the chunk that was read last, or could not be read, relative to the root.
  var file: String { PackDirectory.name + "/" + PackFile.name(packNumber) }

  /// - Returns: nil at the end.
  /// - Throws: `ChunkFailure`; the walk goes on behind that chunk. As `PackRecords.follow`.
  func next() throws -> Met? {
    while true {
      if let broken = nextBroken() { return keep(broken) }
      if let record = record.take() {
        if let met = live(record) { return keep(met) }
      } else if chunk != nil {
        record = unsafe chunk?.next(in: RawSpan(_unsafeBytes: bytes))
        gap = end..<max(end, record?.address.offset ?? byteCount)
        if let record { end = record.range.upperBound } else { chunk = nil }
      } else if try !readNextChunk() {
        return nil
      }
    }
  }

  private func keep(_ met: Met) -> Met {
    last = met
    return met
  }
}

// MARK: - What was met

extension PackWalk {
  private var bytes: UnsafeRawBufferPointer { unsafe UnsafeRawBufferPointer(rebasing: buffer[..<byteCount]) }

  /// Calls a closure with the file name of the record that was met last.
  func withName<Result>(of met: Met, _ body: (Span<UInt8>) -> Result) -> Result {
    let name = unsafe UnsafeRawBufferPointer(rebasing: buffer[met.nameRange])
    return unsafe body(name.bindMemory(to: UInt8.self).span)
  }

  /// - Returns: nil if it is no text.
  func name(of met: Met) -> String? {
    unsafe String(validating: UnsafeRawBufferPointer(rebasing: buffer[met.nameRange]), as: UTF8.self)
  }

  /// The record that was met last, as a change would find it; nil if it is there no more.
  func found(_ met: Met, at name: RecordPath, by judge: RecordJudge) throws -> FoundRecord? {
    // A header that is written in place may be seen half done.
    guard let finding = met.finding else { return try records.find(name, by: judge) }
    let range = met.address.offset..<(met.address.offset + finding.header.byteCount)
    return unsafe records.record(
      name, finding, RawSpan(_unsafeBytes: UnsafeRawBufferPointer(rebasing: buffer[range])), by: judge)
  }
}

// MARK: - Records of a chunk

extension PackWalk {
  /// - Returns: nil if no entry leads to the record, or it was met.
  private func live(_ record: PackedRecord) -> Met? {
    let digest = unsafe record.nameDigest(in: RawSpan(_unsafeBytes: bytes))
    guard let (slot, entry) = newEntry(digest, record.address) else { return nil }
    let lastUse = IndexLayout.use(at: records.packs.index.time(at: slot))
    return Met(
      address: record.address, digest: digest,
      finding: PackedFinding(slot: slot, entry: entry, header: record.header, lastUse: lastUse),
      nameRange: record.nameRange)
  }

  private func newEntry(_ digest: UInt64, _ address: PackAddress) -> (slot: IndexSlot, entry: IndexEntry)? {
    guard address.rawValue >= start.rawValue, let found = records.packs.index.find(digest, at: address),
      met.insert(found.slot)
    else { return nil }
    return found
  }

  /// The next record in the gap whose header is damaged: an entry leads the name that it claims to its address.
  private func nextBroken() -> Met? {
    while true {
      let offset = PackLayout.firstPlace(from: gap.lowerBound)
      guard offset < gap.upperBound else { return nil }
      gap = min(offset + PackLayout.recordAlignment, gap.upperBound)..<gap.upperBound
      let address = PackAddress(pack: packNumber, chunk: chunkNumber, offset: offset)
      let rest = unsafe UnsafeRawBufferPointer(rebasing: bytes[offset...])
      guard let claimed = unsafe PackedHeader.claimedNameRange(in: RawSpan(_unsafeBytes: rest)) else { continue }
      let range = (offset + claimed.lowerBound)..<(offset + claimed.upperBound)
      let digest = unsafe NameDigest.digest(
        ofFileName: UnsafeRawBufferPointer(rebasing: buffer[range]).bindMemory(to: UInt8.self).span)
      guard newEntry(digest, address) != nil else { continue }
      return Met(address: address, digest: digest, finding: nil, nameRange: range)
    }
  }

  /// - Returns: false after the last one.
  private func readNextChunk() throws -> Bool {
    while packs.indices.contains(nextPack) {
      let pack = packs[nextPack]
      while nextChunk < PackLayout.chunkCount {
        let number = nextChunk
        nextChunk += 1
        if try read(number, of: pack) { return true }
      }
      (nextPack, nextChunk) = (nextPack + 1, 0)
    }
    return false
  }

  /// - Returns: false for a chunk without records, and in a sweep for one without new ones.
  private func read(_ number: Int, of pack: PackFile) throws -> Bool {
    let entry = pack.entry(ofChunk: number)
    guard entry.state.kind != .free else { return false }
    if let passesOver, passesOver(entry) {
      hasPassedOver = true
      return false
    }
    let begin = PackAddress(pack: pack.number, chunk: number, offset: 0)
    let look = ChunkLook(entry)
    if isSweep, let before = looks[begin], before == look, before.isQuiet { return false }
    looks[begin] = look
    if !records.packs.isInForce {
      try records.follow()
      met = SlotSet(of: records.packs.index)
    }
    (packNumber, chunkNumber, byteCount, end) = (pack.number, number, 0, 0)
    let salts = pack.salts(ofChunk: number)
    do throws(FileError) {
      byteCount = try unsafe pack.read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<look.end]), at: begin)
    } catch {
      throw ChunkFailure(cause: error)
    }
    chunk = ChunkWalk(pack: pack.number, chunk: number, salts: salts)
    return true
  }
}

/// A chunk cannot be read.
struct ChunkFailure: Error {
  let cause: FileError
}

/// What tells whether a chunk has got records since a look at it.
private struct ChunkLook: Equatable {
  private let openingSequence: UInt64
  let end: Int
  /// Whether nothing was in flight.
  let isQuiet: Bool

  init(_ entry: ChunkEntry) {
    openingSequence = entry.openingSequence
    // Before what is in flight: room that is given out in between shows in one of both.
    end = entry.end
    isQuiet = entry.inFlight == 0
  }

  static func == (a: ChunkLook, b: ChunkLook) -> Bool {
    a.openingSequence == b.openingSequence && a.end == b.end
  }
}

/// Slots of an index: a bit for each word of its buckets.
private struct SlotSet {
  private var bits: [UInt8]

  init(of index: PackIndex) { bits = [UInt8](repeating: 0, count: index.bucketCount) }

  /// - Returns: false if it was there already.
  mutating func insert(_ slot: IndexSlot) -> Bool {
    let (byte, bit) = (slot.word / 8, UInt8(1) << UInt8(truncatingIfNeeded: slot.word % 8))
    guard bits.indices.contains(byte), bits[byte] & bit == 0 else { return false }
    bits[byte] |= bit
    return true
  }
}

/// The bytes of a chunk, read at once, and the records in it.
struct ChunkContent {
  private let bytes: [UInt8]
  /// Dead ones, too.
  private(set) var records: [PackedRecord] = []
  /// Whether room was given out in which no record can be read: one that is damaged, or was not written to its end.
  private(set) var hasGaps = false

  /// System call: `pread(2)`.
  ///
  /// - Complexity: O(*n*) for the bytes of the chunk that were given out.
  init(of pack: PackFile, _ chunk: Int) throws {
    // Before the bytes: those of the chunk's next life have other salts.
    let salts = pack.salts(ofChunk: chunk)
    let start = PackAddress(pack: pack.number, chunk: chunk, offset: 0)
    let given = pack.entry(ofChunk: chunk).end
    var bytes = [UInt8](repeating: 0, count: given)
    // What bad blocks hold shows as a gap.
    let salvage = try unsafe bytes.withUnsafeMutableBytes { buffer in
      try unsafe pack.salvage(into: buffer, at: start)
    }
    bytes.removeLast(bytes.count - salvage.byteCount)
    self.bytes = bytes
    var walk = ChunkWalk(pack: pack.number, chunk: chunk, salts: salts)
    var end = 0
    while let record = walk.next(in: unsafe bytes.span.bytes) {
      if record.address.offset != PackLayout.firstPlace(from: end) { hasGaps = true }
      end = record.range.upperBound
      records.append(record)
    }
    if end < given { hasGaps = true }
  }

  /// The file name of a record, in UTF-8.
  func name(of record: PackedRecord) -> [UInt8] { Array(bytes[record.nameRange]) }
}
