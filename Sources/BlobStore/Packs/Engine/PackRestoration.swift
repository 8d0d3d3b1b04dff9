internal import BlobRecord
internal import Posix

/// An index that is made from a checkpoint: what that leads to and has not died since, and what is found in chunks that it does
/// not cover.
///
/// The caller has the byte for making an index, and none is in force.
struct PackRestoration {
  let checkpoint: PackCheckpoint
  let packs: [PackFile]
  /// Whether the checkpoint covers a chunk, of all packs.
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

  /// Whether an entry leads to a record that is covered and not marked as dead.
  func isLive(_ entry: IndexEntry) -> Bool {
    let address = entry.address
    guard let pack = pack(address.pack), covers(chunk: address.chunk, of: pack) else { return false }
    return !pack.deadBits(ofChunk: address.chunk).isDead(address)
  }

  private func pack(_ number: Int) -> PackFile? {
    // A pack that cannot be used is missing among them.
    packs.indices.contains(number) && packs[number].number == number
      ? packs[number] : packs.first { $0.number == number }
  }

  /// Whether no chunk has been used anew since the first look.
  var isStillTrue: Bool {
    packs.allSatisfy { pack in
      (0..<PackLayout.chunkCount).allSatisfy {
        !covers(chunk: $0, of: pack) || Self.covers($0, of: pack, checkpoint)
      }
    }
  }

  /// Leads a name to a record that was found in a chunk which is not covered, unless the index leads to a newer one.
  ///
  /// - Returns: false if the index has no room for it.
  func settle(_ record: PackRebuild.Entry, in index: PackIndex) throws -> Bool {
    var probe = index.probe(record.nameDigest)
    while let (slot, rival) = probe.next(in: index) {
      // One that cannot be read, as it is damaged or written just now, is left to those who look for it.
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
  /// The entry of the index that leads to the record.
  func entry(in index: PackIndex) -> IndexEntry {
    IndexEntry(tag: index.tag(of: nameDigest), byteCount: byteCount, address: address)
  }
}
