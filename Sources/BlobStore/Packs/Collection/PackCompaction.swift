internal import BlobRecord
internal import Posix

/// Makes chunks of the packs free again: those without live records, and the emptiest others, whose records it moves.
///
/// The caller has the collector's lock. Each record is judged under its stripe. What else happens meanwhile is left alone:
/// chunks that are being filled, and records in flight of processes that live.
struct PackCompaction {
  /// Chunks in use may take so much more than live records do.
  static let allowance = 1.25
  /// As `allowance`, where a limit is exceeded.
  static let allowanceAtLimit = 1.1
  /// Chunks with blocks, the free ones among them, may take so much more than live records do.
  private static let allowanceWithFree = 1.2
  /// So many free chunks keep their blocks at least.
  private static let leastReserve = 3
  /// So many chunks are emptied before those are freed: what moved takes room meanwhile.
  private static let batch = 4

  /// Which records go instead of being moved.
  struct ChunkEviction {
    /// Those that may go.
    let standings: ChunkStandings
    /// So many bytes have to go, as they lie in chunks.
    let byteCount: Int64
    /// Removes a record if it stands no later than that.
    let evict: (RecordPath, EvictionStep) throws -> Void
  }

  private var records: PackRecords
  /// nil where nothing has to go.
  var eviction: ChunkEviction?
  /// Chunks in use may take so much more than live records do.
  var allowance = Self.allowance
  private let isStopped: () -> Bool
  private let didFail: (any Error) -> Void
  /// All packs, by number; nil for one that cannot be used.
  private var packs: [PackFile?] = []
  private var chunks: [CompactedChunk] = []
  /// Of all chunks, those that are being filled among them.
  private var liveByteCount: Int64 = 0
  /// Records that stand no later go.
  private var lastToGo: EvictionStep?
  /// An empty chunk with its blocks, which only collections use: so a full volume can be cleaned.
  private var spare: CompactedChunk?
  /// What is known of chunks that become free must be forgotten on the medium before.
  private var checkpoint: PackCheckpoint?

  /// - Parameter didFail: called for a chunk that could not be emptied; the others are, all the same.
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
      // It may be one for another program, and would not know what becomes free.
      try PackCheckpoint.remove(in: files.directory)
      records.core.configuration.logger.notice("a checkpoint of the packs was removed: \(reason)")
    }
    // After the look at what is in flight: what is published by then is in the index.
    try countLive()
    // The one that was kept has no salts. What a killed collection has left has.
    spare = chunks.first { $0.isLeftBehind && $0.live.records == 0 && !$0.hasSalts }
    for (count, index) in choose().enumerated() where !isStopped() {
      do {
        chunks[index] = try emptied(chunks[index])
        if count % Self.batch == Self.batch - 1 { try free() }
      } catch let error as FileError where error.isLackOfRoom {
        // What was moved so far makes room.
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

/// A chunk that takes no more records, and has none in flight.
private struct CompactedChunk {
  let pack: PackFile
  let number: Int
  /// Whether a collection was at it, and was killed or kept it.
  let isLeftBehind: Bool
  var live = LiveRecords()
  /// Whether no change can still be at one of its records that can be read.
  var isSettled = false
  /// Whether it may have others.
  var hasGaps = false

  /// Whether no entry leads to it, and no change is at it.
  var isEmpty: Bool { live.records == 0 && isSettled }
  var entry: ChunkEntry { pack.entry(ofChunk: number) }
  var hasSalts: Bool {
    (0..<PackLayout.quarterCount).contains { pack.deadBits(ofChunk: number).salt(ofQuarter: $0) != nil }
  }
  /// Among the chunks of all packs.
  var index: Int { pack.number * PackLayout.chunkCount + number }
}

/// The records of a chunk to which entries of the index lead.
private struct LiveRecords {
  var records = 0
  var bytes = 0
}

// MARK: - What is there

extension PackCompaction {
  private mutating func findChunks() throws {
    for case let pack? in packs {
      for number in 0..<PackLayout.chunkCount {
        let entry = pack.entry(ofChunk: number)
        let owner = entry.state.owner
        // What a process that has died was filling takes no more.
        if entry.state.kind == .open, try !control.isOwnOrAlive(owner) { _ = entry.seal(owner: owner) }
        let state = entry.state
        guard state.kind == .sealed || state.kind == .collecting else { continue }
        guard try entry.inFlight == 0 || !control.isOwnOrAlive(state.owner) else { continue }
        chunks.append(CompactedChunk(pack: pack, number: number, isLeftBehind: state.kind == .collecting))
      }
    }
  }

  /// Counts what the index leads to in each chunk.
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

// MARK: - The choice

extension PackCompaction {
  /// Chooses the chunks to empty, by their indices: those without live records, and so many others that the allowance is kept
  /// and as much goes as has to.
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

  /// The last places in the order from which records go, at each level; nil where none goes.
  private func lastSteps(_ demand: PackEvictionPlan.Demand) -> [EvictionStep?] {
    let levels = 0..<PackEvictionPlan.levelCount
    guard let standings = eviction?.standings else { return levels.map { _ in nil } }
    return standings.lastSteps(
      of: levels.map { Int64(demand.share(atLevel: $0) * Double(standings.byteCount)) })
  }

  /// The live bytes of a chunk that stay at each level.
  private func staying(in chunk: CompactedChunk, _ steps: [EvictionStep?]) -> SIMD16<UInt32> {
    var counts = SIMD16(repeating: UInt32(clamping: chunk.live.bytes))
    let address = PackAddress(pack: chunk.pack.number, chunk: chunk.number, offset: 0)
    for (level, going) in (eviction?.standings.byteCounts(of: address, upTo: steps) ?? []).enumerated() {
      counts[level] -= min(counts[level], UInt32(clamping: going))
    }
    return counts
  }

  /// How many chunks were taken since each.
  private func ages(of used: [Int]) -> [Int: Int] {
    let byAge = used.sorted { chunks[$0].entry.openingSequence > chunks[$1].entry.openingSequence }
    return Dictionary(uniqueKeysWithValues: byAge.enumerated().map { ($1, $0) })
  }
}

// MARK: - Emptying

extension PackCompaction {
  /// Takes the stripe of each record that is not marked as dead, and evicts the record or moves it if it is live.
  ///
  /// A record without an entry may not be marked yet. Its change must end first: the mark would fall on what comes there
  /// after it.
  ///
  /// - Returns: the chunk, with what has become known of it.
  private mutating func emptied(_ chunk: CompactedChunk) throws -> CompactedChunk {
    guard chunk.entry.beginCollection() else { return chunk }
    let content = try ChunkContent(of: chunk.pack, chunk.number)
    let bits = chunk.pack.deadBits(ofChunk: chunk.number)
    var left = content.records.filter { !bits.isDead($0.address) }
    // Stores hold a stripe for a moment. One that is held still may be that of a process that was stopped.
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

  /// Evicts or moves a record, if an entry leads to it.
  ///
  /// - Returns: false where a change may still be at it.
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

  /// Frees the chunks to which no entry leads, and at which no change is.
  private mutating func free() throws {
    try countLive()
    try checkpoint?.uncover(chunks.filter(\.isEmpty).map { (pack: $0.pack, chunk: $0.number) })
    // The one that was kept before may have been used.
    for index in chunks.indices where chunks[index].index != spare?.index {
      let chunk = chunks[index]
      // It is judged once: what comes into a free chunk is not for this pass.
      chunks[index].isSettled = false
      guard chunk.isEmpty, try release(chunk) else {
        chunk.entry.endCollection()
        continue
      }
    }
  }

  /// Frees a chunk, or keeps it for the next collection.
  ///
  /// - Returns: false for one that has to wait.
  private mutating func release(_ chunk: CompactedChunk) throws -> Bool {
    let isKept = spare == nil
    func release() { if isKept { chunk.entry.empty() } else { _ = chunk.entry.free() } }
    if chunk.hasGaps {
      // What cannot be read has no stripe that could be asked for. So no change at all may be under way.
      guard try records.core.stripes.whileNothingChanges(in: control, release) != nil else { return false }
    } else {
      release()
    }
    if isKept { spare = chunk }
    return true
  }
}

// MARK: - Room for the next time

extension PackCompaction {
  private mutating func keepSpare() throws {
    if let spare, spare.entry.state.kind == .collecting { return }
    do {
      try files.keepSpare()
    } catch let error as FileError where error.isLackOfRoom {
      // The next pass may find room.
    }
  }

  /// Gives blocks of free chunks back where there are more than the stores of a while take.
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
      // Nothing is written there meanwhile.
      guard entry.compareExchange(.free, ChunkState(.collecting, owner: 0)) else { continue }
      defer { _ = entry.free() }
      guard try pack.punchHole(chunk: number) else { return }
    }
  }
}
