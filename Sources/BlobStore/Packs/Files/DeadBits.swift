internal import Posix
internal import Synchronization

/// The four dead sectors of a chunk: the salt of each quarter, and a bit for each cell in which a dead record begins.
///
/// The salt and the bits of a quarter are in one sector, so the medium has both from one life of the chunk.
struct DeadBits: Sendable {
  private let pack: PackFile
  private let chunk: Int

  init(_ pack: PackFile, _ chunk: Int) {
    precondition(0..<PackLayout.chunkCount ~= chunk, "chunk \(chunk)")
    self.pack = pack
    self.chunk = chunk
  }

  private func saltOffset(_ quarter: Int) -> Int { PackLayout.deadSectorOffset(ofChunk: chunk, quarter: quarter) }

  /// Returns the salt of a quarter, or `nil` if the quarter contains no records.
  func salt(ofQuarter quarter: Int) -> UInt32? {
    PackLayout.salt(in: saltWord(ofQuarter: quarter))
  }

  func saltWord(ofQuarter quarter: Int) -> UInt64 {
    // Acquires the empty bits that were written before the salt.
    pack.head.withWord(at: saltOffset(quarter), as: UInt64.self) { $0.load(ordering: .acquiring) }
  }

  /// Returns whether a record is marked as dead. The caller holds its stripe, or has exclusive access to the packs.
  func isDead(_ address: PackAddress) -> Bool {
    guard isHere(address) else { return true }
    // Acquires: if taking the chunk cleared the bit, the old salt is no longer visible (Spec/Models.md).
    let word = pack.head.withWord(at: address.deadWordOffset, as: UInt64.self) { $0.load(ordering: .acquiring) }
    return word & address.deadBit != 0
  }

  func set(_ address: PackAddress, isDead: Bool) {
    guard isHere(address) else { return }
    pack.head.withWord(at: address.deadWordOffset, as: UInt64.self) {
      let bit = address.deadBit
      _ = isDead ? $0.bitwiseOr(bit, ordering: .relaxed) : $0.bitwiseAnd(~bit, ordering: .relaxed)
    }
  }

  /// Returns whether an address, which may be any number, is valid and belongs to this chunk.
  private func isHere(_ address: PackAddress) -> Bool {
    address.pack == pack.number && address.chunk == chunk && address.canHoldRecord
  }

  /// Clears the salts, which invalidates all records of the chunk. This happens when the chunk is freed, long before it
  /// is taken. If both happened together, a sector with an old salt and empty bits could reach the medium, and dead
  /// records would be valid again.
  func forget() {
    for quarter in 0..<PackLayout.quarterCount { setSaltWord(0, quarter) }
  }

  /// Assigns new salts and empty bits. Readers with an old address may see a mixture, but find their entry changed.
  func renew() {
    var random = SystemRandomNumberGenerator()
    for quarter in 0..<PackLayout.quarterCount {
      // Clears a salt that a killed session may have left. The stores of the bits release this.
      setSaltWord(0, quarter)
      let bitWords = PackLayout.deadSectorByteCount / 8 - 1
      unsafe pack.head.withWords(at: saltOffset(quarter) + 8, count: bitWords) { words in
        for index in 0..<bitWords { unsafe words[index].store(0, ordering: .releasing) }
      }
      setSaltWord(PackLayout.saltWord(of: random.next()), quarter)
    }
  }

  private func setSaltWord(_ word: UInt64, _ quarter: Int) {
    // Releases the bits, which are valid once a salt exists.
    pack.head.withWord(at: saltOffset(quarter), as: UInt64.self) { $0.store(word, ordering: .releasing) }
  }
}
