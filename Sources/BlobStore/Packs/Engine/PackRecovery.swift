internal import BlobRecord
internal import Posix

/// Rebuilds the index of the packs from their records after a boot, or if the index is missing or damaged.
///
/// The caller has locked `packByte`. Concurrent changes are repeated in the new index once it is in force.
struct PackRecovery {
  let files: PackFiles
  let control: ControlFile
  let boot: SIMD2<UInt64>
  let names: TemporaryNames

  /// The minimum capacity, so that a new index does not grow immediately.
  let leastEntryCount: Int

  /// Returns the new index, which is in force.
  ///
  /// - Complexity: O(*n*) for *n* buckets of the checkpoint and bytes of uncovered chunks; memory for their records.
  func run() throws -> PackIndex {
    // From here on, every process considers its open index invalid.
    control.setPackIndexNumber(0)
    let packs = try files.all()
    let index = try indexByCheckpoint(of: packs) ?? filledIndex(by: rebuild(of: packs))
    countLive(by: index, in: packs)
    control.setPackIndexNumber(index.number)
    return index
  }

  /// Returns `nil` without a usable checkpoint. In that case, all packs are walked, which also reports other damage.
  private func indexByCheckpoint(of packs: [PackFile]) -> PackIndex? {
    do {
      switch PackCheckpoint.open(in: files.directory) {
      case .absent: return nil
      case .unusable(let reason):
        files.logger.warning("all packs are read, because their checkpoint cannot be used: \(reason)")
        return nil
      case .checkpoint(let checkpoint): return try restoredIndex(from: checkpoint, packs)
      }
    } catch {
      files.logger.warning("all packs are read, because their checkpoint cannot be used: \(error)")
      return nil
    }
  }

  private func restoredIndex(from checkpoint: PackCheckpoint, _ packs: [PackFile]) throws -> PackIndex? {
    guard checkpoint.header.packCount <= packs.numberBound, try checkpoint.isWhole() else {
      return nil
    }
    let restoration = PackRestoration(from: checkpoint, packs)
    let header = checkpoint.header
    let index = try emptyIndex(bucketCount: header.bucketCount, seed: header.seed)
    try checkpoint.forEachPiece { index.fill(with: $1, from: $0) { restoration.isLive($0) } }
    let rebuild = try rebuild(of: packs) { !restoration.covers(chunk: $1, of: $0) }
    for record in rebuild.entries {
      // Too many entries in one range of buckets require another seed, and therefore a walk of all packs.
      guard try restoration.settle(record, in: index) else { return nil }
    }
    guard restoration.isStillTrue else { return nil }
    control.raisePackSequence(to: header.sequence)
    return index
  }

  /// Walks chunks, and marks superseded and damaged records in them as dead.
  private func rebuild(
    of packs: [PackFile], where isWalked: (PackFile, Int) -> Bool = { _, _ in true }
  ) throws -> PackRebuild {
    var rebuild = PackRebuild(expecting: packs.reduce(0) { $0 + liveRecordCount(of: $1, where: isWalked) })
    var salts: [PackAddress: ChunkSalts] = [:]
    for pack in packs { try add(pack, where: isWalked, to: &rebuild, &salts) }
    for address in rebuild.mustDie {
      guard let pack = packs.first(where: { $0.number == address.pack }) else { continue }
      // A collection may have freed the chunk since, and the address may belong to another record.
      guard pack.salts(ofChunk: address.chunk) == salts[address.chunkStart] else { continue }
      pack.deadBits(ofChunk: address.chunk).set(address, isDead: true)
    }
    control.raisePackSequence(to: rebuild.highestSequence)
    return rebuild
  }

  /// Returns the number of live records according to the hints of the chunks, limited to possible values.
  private func liveRecordCount(of pack: PackFile, where isWalked: (PackFile, Int) -> Bool) -> Int {
    let most = PackLayout.quarterCount * PackLayout.cellsPerQuarter
    return (0..<PackLayout.chunkCount).reduce(0) { sum, chunk in
      isWalked(pack, chunk) ? sum + min(max(pack.entry(ofChunk: chunk).liveRecordCount, 0), most) : sum
    }
  }

  private func add(
    _ pack: PackFile, where isWalked: (PackFile, Int) -> Bool, to rebuild: inout PackRebuild,
    _ saltsOfChunks: inout [PackAddress: ChunkSalts]
  ) throws {
    let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: PackLayout.chunkByteCount, alignment: 16)
    defer { unsafe bytes.deallocate() }
    for number in 0..<PackLayout.chunkCount {
      let entry = pack.entry(ofChunk: number)
      // A power cut may preserve the salts of a chunk but lose its state. Its records still match the salts, and could
      // otherwise reappear after the next power cut.
      if entry.state.kind == .free, pack.salts(ofChunk: number).areAny { _ = entry.sealFree() }
      let state = entry.state
      guard state.kind != .free, isWalked(pack, number) else { continue }
      let hasOwner = try control.isOwnOrAlive(state.owner)
      // The owner has died, so nothing more will be stored in the chunk.
      if state.kind == .open, !hasOwner { _ = entry.seal(owner: state.owner) }
      let salts = pack.salts(ofChunk: number)
      let start = PackAddress(pack: pack.number, chunk: number, offset: 0)
      saltsOfChunks[start] = salts
      let salvage = try unsafe pack.salvage(into: bytes, at: start)
      // A living process may be writing to the chunk. The next attempt reads it.
      if let failure = salvage.failure, hasOwner, state.kind == .open || entry.inFlight > 0 { throw failure }
      let chunk = unsafe RawSpan(_unsafeBytes: UnsafeRawBufferPointer(rebasing: bytes[..<salvage.byteCount]))
      let bits = pack.deadBits(ofChunk: number)
      var walk = ChunkWalk(pack: pack.number, chunk: number, salts: salts)
      var found: [PackedRecord] = []
      while let record = walk.next(in: chunk) {
        // A record of a living process may be only partly written, and is not damaged.
        let isHalf = hasOwner && entry.inFlight > 0 && !record.hasSoundPayload(in: chunk)
        rebuild.add(record, isDead: isHalf || bits.isDead(record.address), in: chunk)
        entry.noteEnd(record.range.upperBound)
        entry.noteLife(ttl: record.header.ttl, update: record.header.updateTime)
        if salvage.failure != nil { found.append(record) }
      }
      if let failure = salvage.failure {
        // The keys of lost records may be stored and removed from now on, so the old records must not reappear.
        rebuild.lose(salvage.unreadable(at: start, besides: found))
        files.logger.warning("\(salvage.lost.count) pages of 4 KiB of chunk \(number) are lost: \(failure)")
      }
    }
  }

  /// Corrects the hints of the chunks after a power cut or a killed process.
  private func countLive(by index: PackIndex, in packs: [PackFile]) {
    let chunkCount = PackLayout.chunkCount
    var live = [(records: Int, bytes: Int)](
      repeating: (0, 0), count: packs.numberBound * chunkCount)
    index.forEachEntry { entry in
      let chunk = entry.address.pack * chunkCount + entry.address.chunk
      guard live.indices.contains(chunk) else { return }
      live[chunk].records += 1
      live[chunk].bytes += entry.byteCount
    }
    for pack in packs {
      for number in 0..<chunkCount {
        let chunk = pack.entry(ofChunk: number)
        guard chunk.state.kind != .free else { continue }
        let sum = live[pack.number * chunkCount + number]
        chunk.countLive(records: sum.records - chunk.liveRecordCount, bytes: sum.bytes - chunk.liveByteCount)
      }
    }
  }

  private func filledIndex(by rebuild: PackRebuild) throws -> PackIndex {
    var bucketCount = PackIndex.bucketCount(forEntries: max(leastEntryCount, rebuild.count + rebuild.count / 2))
    while true {
      let index = try emptyIndex(bucketCount: bucketCount)
      let isWhole = rebuild.entries.allSatisfy { record in
        index.insert(record.entry(in: index), record.nameDigest, time: IndexLayout.time(of: record.lastUse)) != nil
      }
      if isWhole { return index }
      // Too many entries in one range of buckets require another seed, and more buckets.
      bucketCount += bucketCount / 2
    }
  }

  private func emptyIndex(bucketCount: Int, seed: UInt64? = nil) throws -> PackIndex {
    _ = try files.directory.subdirectory.directory.unlink(PackIndex.name)
    try PackIndexGrowth.giveUp(in: files.directory)
    _ = try PackIndex.make(bucketCount: bucketCount, seed: seed, boot: boot, in: files.directory, names: names)
    guard case .index(let index) = try PackIndex.open(in: files.directory), index.bucketCount == bucketCount,
      seed == nil || index.seed == seed
    else {
      throw BlobStoreError(
        .internalInconsistency, "the index of the packs is gone or changed",
        path: files.directory.path.appending(PackIndex.name))
    }
    return index
  }
}

extension PackFile {
  func salts(ofChunk number: Int) -> ChunkSalts {
    let bits = deadBits(ofChunk: number)
    return ChunkSalts(
      words: SIMD4(
        bits.saltWord(ofQuarter: 0), bits.saltWord(ofQuarter: 1), bits.saltWord(ofQuarter: 2),
        bits.saltWord(ofQuarter: 3)))
  }
}
