internal import BlobRecord
internal import Posix

/// Makes the index of the packs anew from what lies in them: after a boot, and where it is missing or damaged.
///
/// The caller has the byte for it. Changes may go on beside it: each is made again once the new index is in force.
struct PackRecovery {
  let files: PackFiles
  let control: ControlFile
  let boot: SIMD2<UInt64>
  let names: TemporaryNames

  /// Room for so many records at least, so that a new index does not grow at once.
  let leastEntryCount: Int

  /// - Returns: the new index, which is in force.
  /// - Complexity: all chunks in use are read: O(*n*) for *n* bytes of packs; memory O(*m*) for *m* records.
  func run() throws -> PackIndex {
    // From here on no process believes the index that it has open.
    control.setPackIndexNumber(0)
    let packs = try files.all()
    var rebuild = PackRebuild(expecting: packs.reduce(0) { $0 + liveRecordCount(of: $1) })
    for pack in packs { try add(pack, to: &rebuild) }
    for address in rebuild.mustDie {
      packs.first { $0.number == address.pack }?.deadBits(ofChunk: address.chunk).set(address, isDead: true)
    }
    countLive(rebuild, in: packs)
    control.raisePackSequence(to: rebuild.highestSequence)
    let index = try filledIndex(by: rebuild)
    control.setPackIndexNumber(index.number)
    return index
  }

  /// What the hints of its chunks say, as far as they can be true.
  private func liveRecordCount(of pack: PackFile) -> Int {
    let most = PackLayout.quarterCount * PackLayout.cellsPerQuarter
    return (0..<PackLayout.chunkCount).reduce(0) { $0 + min(max(pack.entry(ofChunk: $1).liveRecordCount, 0), most) }
  }

  private func add(_ pack: PackFile, to rebuild: inout PackRebuild) throws {
    let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: PackLayout.chunkByteCount, alignment: 16)
    defer { unsafe bytes.deallocate() }
    for number in 0..<PackLayout.chunkCount {
      let entry = pack.entry(ofChunk: number)
      let state = entry.state
      guard state.kind != .free else { continue }
      let hasOwner = try control.isOwn(state.owner) || control.isAlive(state.owner)
      // One whose process has died takes no more.
      if state.kind == .open, !hasOwner { _ = entry.seal(owner: state.owner) }
      let salts = pack.salts(ofChunk: number)
      let start = PackAddress(pack: pack.number, chunk: number, offset: 0)
      let count = try unsafe pack.read(into: bytes, at: start)
      let chunk = unsafe RawSpan(_unsafeBytes: UnsafeRawBufferPointer(rebasing: bytes[..<count]))
      let bits = pack.deadBits(ofChunk: number)
      var walk = ChunkWalk(pack: pack.number, chunk: number, salts: salts)
      while let record = walk.next(in: chunk) {
        // One whose writer lives may be half written. That is no damage.
        let isHalf = hasOwner && entry.inFlight > 0 && !record.hasSoundPayload(in: chunk)
        rebuild.add(record, isDead: isHalf || bits.isDead(record.address), in: chunk)
        entry.noteEnd(record.range.upperBound)
        entry.noteLife(ttl: record.header.ttl, update: record.header.updateTime)
      }
    }
  }

  /// Puts the hints of the chunks right, which a power cut or a kill has left as they were.
  private func countLive(_ rebuild: PackRebuild, in packs: [PackFile]) {
    let chunkCount = PackLayout.chunkCount
    var live = [(records: Int, bytes: Int)](
      repeating: (0, 0), count: (packs.map { $0.number + 1 }.max() ?? 0) * chunkCount)
    for entry in rebuild.entries {
      let index = entry.address.pack * chunkCount + entry.address.chunk
      live[index].records += 1
      live[index].bytes += entry.byteCount
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
      _ = try files.directory.subdirectory.directory.unlink(PackIndex.name)
      try PackIndexGrowth.giveUp(in: files.directory)
      _ = try PackIndex.make(bucketCount: bucketCount, boot: boot, in: files.directory, names: names)
      guard case .index(let index) = try PackIndex.open(in: files.directory) else {
        throw BlobStoreError(
          .internalInconsistency, "the index of the packs is gone or changed",
          path: files.directory.path.appending(PackIndex.name))
      }
      let isWhole = rebuild.entries.allSatisfy { record in
        let entry = IndexEntry(
          tag: index.tag(of: record.nameDigest), byteCount: record.byteCount, address: record.address)
        return index.insert(entry, record.nameDigest, time: IndexLayout.time(of: record.lastUse)) != nil
      }
      if isWhole { return index }
      // Names whose entries crowd in one place: another seed, and more room.
      bucketCount += bucketCount / 2
    }
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
