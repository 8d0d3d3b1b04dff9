import TestSupport
import Testing

@testable import BlobStore

@Suite struct DeadBitsTests {
  let bench: PackBench
  let pack: PackFile

  init() throws {
    bench = try PackBench()
    pack = try bench.pack()
  }

  @Test func aTakenChunkHasNewSaltsAndEmptyBits() throws {
    let bits = pack.deadBits(ofChunk: 1)
    var lives: [[UInt32?]] = []
    for _ in 0..<3 {
      let entry = try bench.openChunk(1, in: pack)
      let salts = (0..<4).map { bits.salt(ofQuarter: $0) }
      #expect(!salts.contains(nil) && !lives.contains(salts))
      lives.append(salts)
      for cell in 0..<16_128 {
        let address = PackAddress(pack: 0, chunk: 1, offset: cell * 64)
        guard address.canHoldRecord else { continue }
        #expect(!bits.isDead(address))
        if cell % 7 == 0 { bits.set(address, isDead: true) }
      }
      #expect(entry.seal(owner: 7) && entry.beginCollection() && entry.free())
      #expect((0..<4).allSatisfy { bits.salt(ofQuarter: $0) == nil })
    }
  }

  /// The mark changes one bit, at the specified offset in the sector of the salt and the bits.
  @Test func aMarkIsOneBitOfItsSector() throws {
    _ = try bench.openChunk(2, in: pack)
    let before = try bytes(ofFile: bench.path("p-0"))
    let address = PackAddress(pack: 0, chunk: 2, offset: 258_048 * 3 + 64 * 77 + 8)
    pack.deadBits(ofChunk: 2).set(address, isDead: true)
    let after = try bytes(ofFile: bench.path("p-0"))
    let changed = before.indices.filter { before[$0] != after[$0] }
    let sector = 69_632 + (2 * 4 + 3) * 512
    #expect(changed == [sector + 8 + 77 / 8] && after[changed[0]] == 1 << (77 % 8))
    let salt = after[sector..<sector + 4]
    #expect(Array(after[sector + 4..<sector + 8]) == salt.map { ~$0 })
  }

  @Test func marksAreSetAndTakenAwayOneByOne() throws {
    var random = SeededGenerator(seed: SeededGenerator.announcedSeed(for: "marksAreSetAndTakenAway"))
    _ = try bench.openChunk(in: pack)
    let (bits, others) = try (pack.deadBits(ofChunk: 0), bench.pack().deadBits(ofChunk: 0))
    var dead: Set<Int> = []
    for _ in 0..<2000 {
      let cell = Int.random(in: 0..<300, using: &random)
      let address = PackAddress(pack: 0, chunk: 0, offset: cell * 64)
      let isDead = Bool.random(using: &random)
      bits.set(address, isDead: isDead)
      if isDead { dead.insert(cell) } else { dead.remove(cell) }
    }
    for cell in 0..<400 {
      #expect(others.isDead(PackAddress(pack: 0, chunk: 0, offset: cell * 64)) == dead.contains(cell))
    }
  }

  /// At an address that cannot contain a record of the chunk, no record is alive, and no bit changes.
  @Test(arguments: [
    PackAddress(pack: 0, chunk: 1, offset: 0), PackAddress(pack: 1, chunk: 0, offset: 0),
    PackAddress(pack: 0, chunk: 0, offset: 480), PackAddress(rawValue: 1 << 17 - 1),
  ])
  func otherAddressesAreDead(address: PackAddress) throws {
    _ = try bench.openChunk(in: pack)
    let bits = pack.deadBits(ofChunk: 0)
    let before = try bytes(ofFile: bench.path("p-0"))
    for isDead in [false, true] {
      bits.set(address, isDead: isDead)
      #expect(bits.isDead(address))
    }
    #expect(try bytes(ofFile: bench.path("p-0")) == before)
  }
}
