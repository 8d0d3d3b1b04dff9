internal import BlobRecord
internal import Posix

/// Restores an index from the live entries of a checkpoint and the records of uncovered chunks.
///
/// The caller has locked `packByte`, and no index is in force.
struct PackRestoration {
  let checkpoint: PackCheckpoint
  let packs: [PackFile]
  private let isCovered: [Bool]

  init(from checkpoint: PackCheckpoint, _ packs: [PackFile]) {
    self.checkpoint = checkpoint
    self.packs = packs
    var isCovered = [Bool](repeating: false, count: checkpoint.header.packCount * PackLayout.chunkCount)
    for pack in packs where pack.number < checkpoint.header.packCount {
      for chunk in 0..<PackLayout.chunkCount {
        isCovered[pack.number * PackLayout.chunkCount + chunk] = Self.covers(chunk, of: pack, checkpoint)
      }
    }
    self.isCovered = isCovered
  }

  private static func covers(_ chunk: Int, of pack: PackFile, _ checkpoint: PackCheckpoint) -> Bool {
    let kind = pack.entry(ofChunk: chunk).state.kind
    return (kind == .sealed || kind == .collecting) && checkpoint.covers(chunk: chunk, of: pack)
  }

  func covers(chunk: Int, of pack: PackFile) -> Bool {
    let index = pack.number * PackLayout.chunkCount + chunk
    return isCovered.indices.contains(index) && isCovered[index]
  }

  func isLive(_ entry: IndexEntry) -> Bool {
    let address = entry.address
    guard let pack = pack(address.pack), covers(chunk: address.chunk, of: pack) else { return false }
    return !pack.deadBits(ofChunk: address.chunk).isDead(address)
  }

  private func pack(_ number: Int) -> PackFile? {
    // Unusable packs are missing from the array.
    packs.indices.contains(number) && packs[number].number == number
      ? packs[number] : packs.first { $0.number == number }
  }

  /// A Boolean value that indicates whether no covered chunk has been reused since initialization.
  var isStillTrue: Bool {
    packs.allSatisfy { pack in
      (0..<PackLayout.chunkCount).allSatisfy {
        !covers(chunk: $0, of: pack) || Self.covers($0, of: pack, checkpoint)
      }
    }
  }

  /// Enters a record of an uncovered chunk, unless the index has a newer one. Returns `false` if the index is full.
  func settle(_ record: PackRebuild.Entry, in index: PackIndex) throws -> Bool {
    var probe = index.probe(record.nameDigest)
    while let (slot, rival) = probe.next(in: index) {
      // Records that are damaged or being written cannot be compared. Lookups handle them.
      guard let pack = pack(rival.address.pack), let head = try pack.head(of: rival.address),
        record.isOfName(unsafe head.name.span.bytes)
      else { continue }
      guard record.isNewer(than: head.header, at: rival.address) else {
        setDead(record.address)
        return true
      }
      if Self.covers(rival.address.chunk, of: pack, checkpoint) { setDead(rival.address) }
      guard index.compareExchange(at: slot, rival, record.entry(in: index)) else { return false }
      index.setTime(IndexLayout.time(of: record.lastUse), at: slot)
      return true
    }
    return index.insert(
      record.entry(in: index), record.nameDigest, time: IndexLayout.time(of: record.lastUse)) != nil
  }

  private func setDead(_ address: PackAddress) {
    pack(address.pack)?.deadBits(ofChunk: address.chunk).set(address, isDead: true)
  }
}

extension PackRebuild.Entry {
  func entry(in index: PackIndex) -> IndexEntry {
    IndexEntry(tag: index.tag(of: nameDigest), byteCount: byteCount, address: address)
  }
}
