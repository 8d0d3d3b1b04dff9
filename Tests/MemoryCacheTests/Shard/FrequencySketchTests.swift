import MemoryCache
import TestSupport
import Testing

/// Checks each counter of the sketch: none overflows into its neighbour.
@Suite struct FrequencySketchTests {
  private static let seeds: [UInt64] = [1, 2, 3]

  private func sketch(_ entries: Int) -> FrequencySketch {
    var sketch = FrequencySketch()
    sketch.reserve(entries)
    return sketch
  }

  private func hashes(_ count: Int, _ seed: UInt64) -> [UInt32] {
    var generator = SeededGenerator(seed: seed)
    return (0..<count).map { _ in UInt32(truncatingIfNeeded: generator.next()) }
  }

  @Test func roomIsAPowerOfTwoAndAtLeastABlock() {
    for (entries, words) in [(1, 8), (8, 8), (9, 16), (100, 128), (128, 128), (129, 256)] {
      #expect(sketch(entries).counters.count == words * 16)
    }
    #expect(FrequencySketch().counters.isEmpty)
  }

  @Test func withoutRoomNothingIsCounted() {
    var sketch = FrequencySketch()
    sketch.count(7)
    #expect(sketch.frequency(of: 7) == 0)
  }

  /// A use increments the key's four counters up to fifteen, and no others.
  @Test(arguments: seeds) func aUseCountsInFourCountersByOne(seed: UInt64) {
    var sketch = sketch(64)
    for hash in hashes(10, seed) {
      let start = sketch.frequency(of: hash)
      for use in UInt64(1)...40 {
        let before = sketch.counters
        sketch.count(hash)
        let after = sketch.counters
        let changed = before.indices.filter { before[$0] != after[$0] }
        #expect(changed.allSatisfy { after[$0] == before[$0] + 1 })
        #expect(changed.count == 4 || before.contains(15) && changed.count < 4)
        #expect(sketch.frequency(of: hash) >= min(start + use, 15))
      }
      #expect(sketch.frequency(of: hash) == 15)
    }
  }

  /// The four counters are in one block of eight words, each row in its own two words.
  @Test(arguments: seeds) func countersOfAKeyLieInOneBlock(seed: UInt64) {
    for hash in hashes(100, seed) {
      var sketch = sketch(64)
      sketch.count(hash)
      let counters = sketch.counters
      let words = counters.indices.filter { counters[$0] != 0 }.map { $0 / 16 }
      #expect(words.count == 4)
      #expect(Set(words.map { $0 / 8 }).count == 1)
      #expect(words.map { $0 % 8 / 2 } == [0, 1, 2, 3])
    }
  }

  /// Keys are spread over blocks and over the counters of a word.
  @Test func keysAreSpread() {
    var sketch = sketch(128)
    for hash in hashes(1_000, 5) { sketch.count(hash) }
    let counters = sketch.counters
    #expect(
      (0..<16).allSatisfy { place in stride(from: place, to: counters.count, by: 16).contains { counters[$0] > 0 } })
    #expect((0..<16).allSatisfy { block in counters[block * 128..<(block + 1) * 128].contains { $0 > 0 } })
  }

  /// The counts are almost exact as long as there are few keys.
  @Test func fewKeysAreExact() {
    var sketch = sketch(1 << 14)
    let keys = hashes(100, 11)
    for (index, hash) in keys.enumerated() { for _ in 0..<index % 15 { sketch.count(hash) } }
    #expect(keys.indices.count { sketch.frequency(of: keys[$0]) == UInt64($0 % 15) } >= 98)
    #expect(hashes(1_000, 12).count { sketch.frequency(of: $0) > 0 } < 10)
  }

  /// After ten uses per entry, each counter is halved separately and rounded down.
  @Test(arguments: seeds, [8, 32, 64]) func countersAreHalvedOneByOne(seed: UInt64, entries: Int) {
    var sketch = sketch(entries)
    var generator = SeededGenerator(seed: seed)
    var halvings = 0
    var uses = 0
    // Some keys are used often, so that counters reach fifteen next to low ones.
    let keys = hashes(entries * 3, seed)
    for _ in 0..<entries * 40 {
      let hash = keys[
        min(Int.random(in: keys.indices, using: &generator), Int.random(in: keys.indices, using: &generator))]
      let before = sketch.counters
      sketch.count(hash)
      let after = sketch.counters
      if before != after { uses += 1 }
      guard zip(before, after).contains(where: { $0 > $1 }) else { continue }
      halvings += 1
      #expect(zip(before, after).allSatisfy { $1 == $0 / 2 || $1 == ($0 + 1) / 2 })
      #expect(zip(before, after).count { $1 != $0 / 2 } <= 4)
      // The first halving comes after ten uses per entry, each later one after five.
      #expect(uses >= (halvings == 1 ? entries * 10 - 1 : entries * 5 - 1))
      #expect(uses <= entries * 10 + 1)
      uses = 0
    }
    #expect(halvings >= 1)
  }

  @Test func roomForMoreForgets() {
    var sketch = sketch(8)
    sketch.count(3)
    sketch.reserve(8)
    #expect(sketch.frequency(of: 3) == 1)
    sketch.reserve(9)
    #expect(sketch.frequency(of: 3) == 0)
  }

  /// After shrinking, a key's count is at least as high as before, and no counter overflows into its neighbour.
  @Test(arguments: seeds) func lessRoomKeepsWhatWasCounted(seed: UInt64) {
    var sketch = sketch(1_024)
    let keys = hashes(300, seed)
    for (index, hash) in keys.enumerated() { for _ in 0..<index % 17 { sketch.count(hash) } }
    let before = sketch.counters
    let frequencies = keys.map { sketch.frequency(of: $0) }
    sketch.shrink(to: 200)
    let after = sketch.counters
    #expect(after.count == 256 * 16)
    #expect(
      after.indices.allSatisfy { place in
        after[place] == stride(from: place, to: before.count, by: after.count).map { before[$0] }.max()
      })
    #expect(zip(keys, frequencies).allSatisfy { sketch.frequency(of: $0) >= $1 })
    sketch.shrink(to: 0)
    #expect(sketch.counters.count == 8 * 16)
  }
}
