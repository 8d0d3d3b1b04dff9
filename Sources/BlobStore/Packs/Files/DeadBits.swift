internal import Posix
internal import Synchronization

/// The four dead sectors of a chunk: the salt of each quarter, and a bit for each cell in which a dead record begins.
///
/// Salt and bits of a quarter lie in one sector. So a medium has both of one life of the chunk, or both of the next.
struct DeadBits: Sendable {
  private let pack: PackFile
  private let chunk: Int

  /// - Parameter chunk: 0 to 1023.
  init(_ pack: PackFile, _ chunk: Int) {
    precondition(0..<PackLayout.chunkCount ~= chunk, "chunk \(chunk)")
    self.pack = pack
    self.chunk = chunk
  }

  private func saltOffset(_ quarter: Int) -> Int { PackLayout.deadSectorOffset(ofChunk: chunk, quarter: quarter) }

  /// - Parameter quarter: 0 to 3.
  /// - Returns: nil if nothing in the quarter is a record.
  func salt(ofQuarter quarter: Int) -> UInt32? {
    PackLayout.salt(in: saltWord(ofQuarter: quarter))
  }

  /// The word of a salt, which may hold any number.
  func saltWord(ofQuarter quarter: Int) -> UInt64 {
    // Acquires the empty bits that were written before the salt.
    pack.head.withWord(at: saltOffset(quarter), as: UInt64.self) { $0.load(ordering: .acquiring) }
  }

  /// Whether the record at an address of this chunk is marked as dead.
  ///
  /// The caller holds the stripe of the record's key, or has the packs to itself.
  func isDead(_ address: PackAddress) -> Bool {
    guard isHere(address) else { return true }
    // Acquires: a bit that is clear because the chunk was taken anew means that its old salt is gone (Spec/Models.md).
    let word = pack.head.withWord(at: address.deadWordOffset, as: UInt64.self) { $0.load(ordering: .acquiring) }
    return word & address.deadBit != 0
  }

  /// Marks the record at an address of this chunk as dead, or as alive.
  func set(_ address: PackAddress, isDead: Bool) {
    guard isHere(address) else { return }
    pack.head.withWord(at: address.deadWordOffset, as: UInt64.self) {
      let bit = address.deadBit
      _ = isDead ? $0.bitwiseOr(bit, ordering: .relaxed) : $0.bitwiseAnd(~bit, ordering: .relaxed)
    }
  }

  /// Whether a record can lie at an address, which may be any number, and is one of this chunk.
  private func isHere(_ address: PackAddress) -> Bool {
    address.pack == pack.number && address.chunk == chunk && address.canHoldRecord
  }

  /// Takes the salts away: nothing in the chunk is a record.
  ///
  /// That is done when the chunk becomes free, long before it is taken. A medium that copies the sector while both are
  /// done could get an old salt with empty bits. Dead records would be alive.
  func forget() {
    for quarter in 0..<PackLayout.quarterCount { setSaltWord(0, quarter) }
  }

  /// Gives each quarter a new salt and empty bits.
  ///
  /// A reader with an address from before may see any of it. It then finds its entry of the index changed.
  func renew() {
    var random = SystemRandomNumberGenerator()
    for quarter in 0..<PackLayout.quarterCount {
      // As a killed session may have left it. Before the bits, which release it.
      setSaltWord(0, quarter)
      let bitWords = PackLayout.deadSectorByteCount / 8 - 1
      unsafe pack.head.withWords(at: saltOffset(quarter) + 8, count: bitWords) { words in
        for index in 0..<bitWords { unsafe words[index].store(0, ordering: .releasing) }
      }
      setSaltWord(PackLayout.saltWord(of: random.next()), quarter)
    }
  }

  private func setSaltWord(_ word: UInt64, _ quarter: Int) {
    // Releases the bits, which count once there is a salt.
    pack.head.withWord(at: saltOffset(quarter), as: UInt64.self) { $0.store(word, ordering: .releasing) }
  }
}
