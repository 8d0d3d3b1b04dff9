internal import BlobRecord
internal import Posix

/// A walk over the records to which the index leads, with one read per chunk.
///
/// A concurrent change may move a record to a later chunk, or to an earlier chunk that the walk has passed. The record
/// keeps its slot of the index, so the walk notes visited slots and visits each only once. In the end, `beginSweep`
/// revisits the chunks that have received records since. If the index is rebuilt during the walk, slots change, and
/// records of revisited chunks are visited again.
@safe final class PackWalk {
  struct Met {
    let address: PackAddress
    let digest: UInt64
    /// The record, or `nil` if its header is damaged except for the name.
    let finding: PackedFinding?
    fileprivate let nameRange: Range<Int>
  }

  /// The packs, with the index that was in force when the chunk was read.
  private(set) var records: PackRecords
  private var packs: [PackFile]
  private var (nextPack, nextChunk) = (0, 0)
  /// The address before which records are skipped.
  private let start: PackAddress
  private var met: SlotSet
  private var lookups: [PackAddress: ChunkLookup] = [:]
  private var isSweep = false
  /// A closure that returns whether to skip a chunk that contains records.
  var passesOver: ((ChunkEntry) -> Bool)?
  private(set) var hasPassedOver = false

  private let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: PackLayout.chunkByteCount, alignment: 8)
  /// The current chunk in the buffer, or `nil` at its end.
  private var chunk: ChunkWalk?
  private var (packNumber, chunkNumber) = (0, 0)
  private var byteCount = 0
  private var end = 0
  /// The bytes before the current record that belong to no record.
  private var gap = 0..<0
  private var record: PackedRecord?
  private var last: Met?

  /// - Parameter start: The `position` of an earlier walk, or any other number.
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

  /// Revisits the chunks that have received records since they were read, for records that were not visited.
  func beginSweep() throws {
    packs = try records.packs.files.all()
    (nextPack, nextChunk, isSweep) = (0, 0, true)
  }

  /// The position at which another walk continues, after the last visited record.
  var position: UInt64 { last.map { $0.address.rawValue + 1 } ?? start.rawValue }

  /// The path of the current chunk's pack, relative to the root.
  var file: String { PackDirectory.name + "/" + PackFile.name(packNumber) }

  /// Returns the next record, or `nil` at the end.
  ///
  /// - Throws: `ChunkFailure`, after which the walk can continue with the next chunk; errors of `PackRecords.follow`.
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

// MARK: - Visited records

extension PackWalk {
  private var bytes: UnsafeRawBufferPointer { unsafe UnsafeRawBufferPointer(rebasing: buffer[..<byteCount]) }

  func withName<Result>(of met: Met, _ body: (Span<UInt8>) -> Result) -> Result {
    let name = unsafe UnsafeRawBufferPointer(rebasing: buffer[met.nameRange])
    return unsafe body(name.bindMemory(to: UInt8.self).span)
  }

  /// Returns `nil` if the name is not valid UTF-8.
  func name(of met: Met) -> String? {
    unsafe String(validating: UnsafeRawBufferPointer(rebasing: buffer[met.nameRange]), as: UTF8.self)
  }

  /// Returns the last visited record in the form that a change needs, or `nil` if it no longer exists.
  func found(_ met: Met, at name: RecordPath, by judge: RecordJudge) throws -> FoundRecord? {
    // A header that is being written in place may appear damaged.
    guard let finding = met.finding else { return try records.find(name, by: judge) }
    let range = met.address.offset..<(met.address.offset + finding.header.byteCount)
    return unsafe records.record(
      name, finding, RawSpan(_unsafeBytes: UnsafeRawBufferPointer(rebasing: buffer[range])), by: judge)
  }
}

// MARK: - Records of a chunk

extension PackWalk {
  /// Returns `nil` if no entry leads to the record, or if it was visited before.
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

  /// Returns the next damaged record in the gap, for which the index has an entry with its name and address.
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

  /// Returns `false` for a chunk without records, or in a sweep without new records.
  private func read(_ number: Int, of pack: PackFile) throws -> Bool {
    let entry = pack.entry(ofChunk: number)
    guard entry.state.kind != .free else { return false }
    if let passesOver, passesOver(entry) {
      hasPassedOver = true
      return false
    }
    let begin = PackAddress(pack: pack.number, chunk: number, offset: 0)
    let lookup = ChunkLookup(entry)
    if isSweep, let before = lookups[begin], before == lookup, before.isQuiet { return false }
    lookups[begin] = lookup
    if !records.packs.isInForce {
      try records.follow()
      met = SlotSet(of: records.packs.index)
    }
    (packNumber, chunkNumber, byteCount, end) = (pack.number, number, 0, 0)
    let salts = pack.salts(ofChunk: number)
    do throws(FileError) {
      byteCount = try unsafe pack.read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<lookup.end]), at: begin)
    } catch {
      throw ChunkFailure(cause: error)
    }
    chunk = ChunkWalk(pack: pack.number, chunk: number, salts: salts)
    return true
  }
}

struct ChunkFailure: Error {
  let cause: FileError
}

/// A state of a chunk, whose comparison shows whether the chunk has received records.
private struct ChunkLookup: Equatable {
  private let openingSequence: UInt64
  let end: Int
  let isQuiet: Bool

  init(_ entry: ChunkEntry) {
    openingSequence = entry.openingSequence
    // Read before the in-flight count, so that a reservation in between shows in the count or in the next `end`.
    end = entry.end
    isQuiet = entry.inFlight == 0
  }

  static func == (a: ChunkLookup, b: ChunkLookup) -> Bool {
    a.openingSequence == b.openingSequence && a.end == b.end
  }
}

/// The visited slots of an index, as a bit for each word of its buckets.
private struct SlotSet {
  private var bits: [UInt8]

  init(of index: PackIndex) { bits = [UInt8](repeating: 0, count: index.bucketCount) }

  mutating func insert(_ slot: IndexSlot) -> Bool {
    let (byte, bit) = (slot.word / 8, UInt8(1) << UInt8(truncatingIfNeeded: slot.word % 8))
    guard bits.indices.contains(byte), bits[byte] & bit == 0 else { return false }
    bits[byte] |= bit
    return true
  }
}

/// The bytes of a chunk and the records in it, including dead ones.
struct ChunkContent {
  private let bytes: [UInt8]
  private(set) var records: [PackedRecord] = []
  /// A Boolean value that indicates whether reserved space contains a damaged or incomplete record.
  private(set) var hasGaps = false

  /// System call: `pread(2)`. O(*n*) for *n* reserved bytes of the chunk.
  init(of pack: PackFile, _ chunk: Int) throws {
    // Read before the bytes, because the chunk's next life has other salts.
    let salts = pack.salts(ofChunk: chunk)
    let start = PackAddress(pack: pack.number, chunk: chunk, offset: 0)
    let given = pack.entry(ofChunk: chunk).end
    var bytes = [UInt8](repeating: 0, count: given)
    // Bad blocks appear as gaps.
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

  func name(of record: PackedRecord) -> [UInt8] { Array(bytes[record.nameRange]) }
}
