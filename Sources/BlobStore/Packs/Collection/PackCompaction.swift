internal import BlobRecord
internal import Posix

/// Frees the chunks without live records, and those with the fewest live bytes, after it has moved their records.
///
/// The caller holds the collector lock. Each record is checked under its stripe. Chunks that are being filled and
/// in-flight records of living processes are left unchanged.
struct PackCompaction {
  /// The upper limit for the bytes of chunks in use, as a multiple of the live bytes.
  static let allowance = 1.25
  /// The value of `allowance` while a size limit is exceeded.
  static let allowanceAtLimit = 1.1
  /// The corresponding limit that includes free chunks with blocks, and decides how many of them keep their blocks.
  private static let allowanceWithFree = 1.2
  /// The minimum number of free chunks that keep their blocks.
  private static let leastReserve = 3
  /// The number of chunks to empty before they are freed, because moved records occupy space until then.
  private static let batch = 4

  /// The eviction to combine with the compaction, so that evicted records are not moved.
  struct ChunkEviction {
    let standings: ChunkStandings
    /// The number of bytes to evict, as sizes in chunks.
    let byteCount: Int64
    /// A closure that removes a record unless its place in the eviction order is later than a step.
    let evict: (RecordPath, EvictionStep) throws -> Void
  }

  private var records: PackRecords
  var eviction: ChunkEviction?
  var allowance = Self.allowance
  private let isStopped: () -> Bool
  private let didFail: (any Error) -> Void
  /// The packs by number, with `nil` for unusable ones.
  private var packs: [PackFile?] = []
  private var chunks: [CompactedChunk] = []
  /// The live bytes of all chunks, including chunks that are being filled.
  private var liveByteCount: Int64 = 0
  /// The last step of the eviction order at which records are evicted.
  private var lastToGo: EvictionStep?
  /// An empty chunk with blocks that is reserved for collections, so that a full volume can be cleaned.
  private var spare: CompactedChunk?
  /// The current checkpoint, from which chunks are removed on the medium before they become free.
  private var checkpoint: PackCheckpoint?

  /// - Parameter didFail: A closure that is called for each chunk that could not be emptied.
  init(of records: PackRecords, isStopped: @escaping () -> Bool, didFail: @escaping (any Error) -> Void) {
    self.records = records
    self.isStopped = isStopped
    self.didFail = didFail
  }

  private var control: ControlFile { records.control }
  private var files: PackFiles { records.packs.files }

  /// - Complexity: O(*n*) for *n* entries of the index, and the bytes of the chunks that are emptied.
  mutating func run() throws {
    for pack in try files.all() {
      while packs.count <= pack.number { packs.append(nil) }
      packs[pack.number] = pack
    }
    try findChunks()
    guard !chunks.isEmpty else { return }
    switch PackCheckpoint.open(in: files.directory) {
    case .absent: break
    case .checkpoint(let found): checkpoint = found
    case .unusable(let reason):
      // An unusable checkpoint may be valid for another program, and would still cover the chunks that become free.
      try PackCheckpoint.remove(in: files.directory)
      records.core.configuration.logger.notice("a checkpoint of the packs was removed: \(reason)")
    }
    // Counted after the in-flight counts were read, so that the index already contains all records published by then.
    try countLive()
    // A spare chunk has no salts, whereas a chunk that a killed collection left has some.
    spare = chunks.first { $0.isLeftBehind && $0.live.records == 0 && !$0.hasSalts }
    for (count, index) in choose().enumerated() where !isStopped() {
      do {
        chunks[index] = try emptied(chunks[index])
        if count % Self.batch == Self.batch - 1 { try free() }
      } catch let error as FileError where error.isLackOfRoom {
        // The records moved so far leave chunks to free.
        break
      } catch {
        didFail(error)
      }
    }
    try free()
    try keepSpare()
    try punchHoles()
  }
}

/// A chunk that accepts no more records and contains no record in flight.
private struct CompactedChunk {
  let pack: PackFile
  let number: Int
  /// A Boolean value that indicates whether an earlier collection died while it emptied the chunk, or kept it as spare.
  let isLeftBehind: Bool
  var live = LiveRecords()
  /// A Boolean value that indicates whether no change of a readable record of the chunk can be in progress.
  var isSettled = false
  /// A Boolean value that indicates whether the chunk may also have unreadable records.
  var hasGaps = false

  var isEmpty: Bool { live.records == 0 && isSettled }
  var entry: ChunkEntry { pack.entry(ofChunk: number) }
  var hasSalts: Bool {
    (0..<PackLayout.quarterCount).contains { pack.deadBits(ofChunk: number).salt(ofQuarter: $0) != nil }
  }
  var index: Int { pack.number * PackLayout.chunkCount + number }
}

private struct LiveRecords {
  var records = 0
  var bytes = 0
}

// MARK: - Finding chunks

extension PackCompaction {
  private mutating func findChunks() throws {
    for case let pack? in packs {
      for number in 0..<PackLayout.chunkCount {
        let entry = pack.entry(ofChunk: number)
        let owner = entry.state.owner
        // Seals a chunk whose owner has died, because nothing more will be stored in it.
        if entry.state.kind == .open, try !control.isOwnOrAlive(owner) { _ = entry.seal(owner: owner) }
        let state = entry.state
        guard state.kind == .sealed || state.kind == .collecting else { continue }
        guard try entry.inFlight == 0 || !control.isOwnOrAlive(state.owner) else { continue }
        chunks.append(CompactedChunk(pack: pack, number: number, isLeftBehind: state.kind == .collecting))
      }
    }
  }

  private mutating func countLive() throws {
    var live: [LiveRecords]
    repeat {
      if !records.packs.isInForce { try records.follow() }
      live = [LiveRecords](repeating: LiveRecords(), count: packs.count * PackLayout.chunkCount)
      records.packs.index.forEachEntry { entry in
        let index = entry.address.pack * PackLayout.chunkCount + entry.address.chunk
        guard live.indices.contains(index) else { return }
        live[index].records += 1
        live[index].bytes += entry.byteCount
      }
    } while !records.packs.isInForce
    liveByteCount = live.reduce(0) { $0 + Int64($1.bytes) }
    for index in chunks.indices { chunks[index].live = live[chunks[index].index] }
  }
}

// MARK: - Choosing chunks

extension PackCompaction {
  /// Returns the indices of the chunks to empty: those without live records, and the others that the plan selects.
  private mutating func choose() -> [Int] {
    let unused = chunks.indices.filter { chunks[$0].live.records == 0 && chunks[$0].index != spare?.index }
    let used = chunks.indices.filter { chunks[$0].live.records > 0 }
    let chunkByteCount = Int64(files.chunkByteCount)
    let liveByteCount = used.reduce(0) { $0 + Int64(chunks[$1].live.bytes) }
    let leftByteCount = max(0, liveByteCount - (eviction?.byteCount ?? 0))
    let allowed = (allowance * Double(leftByteCount) / Double(chunkByteCount)).rounded(.up)
    let demand = PackEvictionPlan.Demand(
      liveByteCount: liveByteCount, leftByteCount: leftByteCount, chunkByteCount: chunkByteCount,
      wantedChunkCount: max(0, used.count - Int(allowed)))
    let steps = lastSteps(demand)
    let ages = ages(of: used)
    let plan = PackEvictionPlan(
      used.map { index in
        let bytes = chunks[index].live.bytes
        return PackEvictionPlan.Chunk(
          number: index, liveByteCount: Int64(bytes), stayingByteCounts: staying(in: chunks[index], steps),
          age: ages[index] ?? 1, isOver: false)
      }, demand)
    lastToGo = steps[plan.level]
    return unused + plan.emptied
  }

  /// Returns the last step of the eviction order at each level, or `nil` for a level that evicts nothing.
  private func lastSteps(_ demand: PackEvictionPlan.Demand) -> [EvictionStep?] {
    let levels = 0..<PackEvictionPlan.levelCount
    guard let standings = eviction?.standings else { return levels.map { _ in nil } }
    return standings.lastSteps(
      of: levels.map { Int64(demand.share(atLevel: $0) * Double(standings.byteCount)) })
  }

  private func staying(in chunk: CompactedChunk, _ steps: [EvictionStep?]) -> SIMD16<UInt32> {
    var counts = SIMD16(repeating: UInt32(clamping: chunk.live.bytes))
    let address = PackAddress(pack: chunk.pack.number, chunk: chunk.number, offset: 0)
    for (level, going) in (eviction?.standings.byteCounts(of: address, upTo: steps) ?? []).enumerated() {
      counts[level] -= min(counts[level], UInt32(clamping: going))
    }
    return counts
  }

  /// Returns the age of each chunk: the number of given chunks that were opened since.
  private func ages(of used: [Int]) -> [Int: Int] {
    let byAge = used.sorted { chunks[$0].entry.openingSequence > chunks[$1].entry.openingSequence }
    return Dictionary(uniqueKeysWithValues: byAge.enumerated().map { ($1, $0) })
  }
}

// MARK: - Emptying

extension PackCompaction {
  /// Empties a chunk: evicts or moves each record that is not marked as dead, under the record's stripe. A record
  /// without an entry may not be marked yet. Its change must end before the chunk is freed, because the mark would
  /// otherwise hit a record of the chunk's next life.
  private mutating func emptied(_ chunk: CompactedChunk) throws -> CompactedChunk {
    guard chunk.entry.beginCollection() else { return chunk }
    let content = try ChunkContent(of: chunk.pack, chunk.number)
    let bits = chunk.pack.deadBits(ofChunk: chunk.number)
    var left = content.records.filter { !bits.isDead($0.address) }
    // Stores hold a stripe briefly. A stripe that is busy in the second round may belong to a stopped process.
    for _ in 0..<2 where !left.isEmpty {
      var busy: [PackedRecord] = []
      for record in left {
        if try isStopped() || !settle(record, of: content) { busy.append(record) }
      }
      left = busy
    }
    var chunk = chunk
    chunk.isSettled = left.isEmpty
    chunk.hasGaps = content.hasGaps
    return chunk
  }

  /// Evicts or moves a record if an entry leads to it. Returns `false` if a change of it may be in progress.
  private mutating func settle(_ record: PackedRecord, of content: ChunkContent) throws -> Bool {
    guard let name = String(validating: content.name(of: record), as: UTF8.self),
      let path = records.core.layout(of: records.open).path(ofFileName: name)
    else { return false }
    if let eviction, let lastToGo, records.packs.index.find(path.digest, at: record.address) != nil {
      try eviction.evict(path, lastToGo)
    }
    guard var hold = try records.core.stripes.holdIfAvailable(path.digest) else { return false }
    let spare = spare.map { PackFiles.Spare(pack: $0.pack, chunk: $0.number) }
    try records.move(path, from: record.address, spare: spare, &hold)
    return true
  }

  /// Frees the chunks to which no entry leads, and of which no record is being changed.
  private mutating func free() throws {
    try countLive()
    try checkpoint?.uncover(chunks.filter(\.isEmpty).map { (pack: $0.pack, chunk: $0.number) })
    // The spare chunk of the previous collection may have been used.
    for index in chunks.indices where chunks[index].index != spare?.index {
      let chunk = chunks[index]
      // Each chunk is checked once, because records that are stored in it after it was freed belong to a later pass.
      chunks[index].isSettled = false
      guard chunk.isEmpty, try release(chunk) else {
        chunk.entry.endCollection()
        continue
      }
    }
  }

  /// Frees a chunk, or keeps it as the spare chunk. Returns `false` if a change is in progress.
  private mutating func release(_ chunk: CompactedChunk) throws -> Bool {
    let isKept = spare == nil
    func release() { if isKept { chunk.entry.empty() } else { _ = chunk.entry.free() } }
    if chunk.hasGaps {
      // An unreadable record has no known stripe, so all stripes have to be free.
      guard try records.core.stripes.whileNothingChanges(in: control, release) != nil else { return false }
    } else {
      release()
    }
    if isKept { spare = chunk }
    return true
  }
}

// MARK: - Space for later collections

extension PackCompaction {
  private mutating func keepSpare() throws {
    if let spare, spare.entry.state.kind == .collecting { return }
    do {
      try files.keepSpare()
    } catch let error as FileError where error.isLackOfRoom {
      // The next pass may find space.
    }
  }

  /// Returns the blocks of free chunks to the volume, except for a reserve for the next stores.
  private func punchHoles() throws {
    var (free, used) = ([(pack: PackFile, number: Int)](), 0)
    for case let pack? in packs {
      for number in 0..<PackLayout.chunkCount {
        let entry = pack.entry(ofChunk: number)
        if entry.state.kind != .free {
          used += 1
        } else if entry.hasBlocks {
          free.append((pack, number))
        }
      }
    }
    let allowed = (Self.allowanceWithFree * Double(liveByteCount) / Double(files.chunkByteCount)).rounded(.up)
    let kept = max(Self.leastReserve, Int(allowed) - used)
    for (pack, number) in free.dropFirst(kept).reversed() where !isStopped() {
      let entry = pack.entry(ofChunk: number)
      // This state prevents stores to the chunk in the meantime.
      guard entry.compareExchange(.free, ChunkState(.collecting, owner: 0)) else { continue }
      defer { _ = entry.free() }
      guard try pack.punchHole(chunk: number) else { return }
    }
  }
}
