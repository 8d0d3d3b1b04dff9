import BlobRecord
import Testing

@Suite struct UnixTimeTests {
  @Test(
    arguments: [
      (0, 5, 5), (-5, 3, -2), (.max, 0, .max), (.max, 1, .max), (.max - 1, 2, .max), (.min, -1, .min),
      (.min, .max, -1), (.max, .min, -1), (.min, .min, .min), (.max, .max, .max),
    ] as [(Int64, Int64, Int64)])
  func sumsAreHeldAtTheEnds(start: Int64, delta: Int64, sum: Int64) {
    #expect(UnixTime(seconds: start).advanced(bySeconds: delta) == UnixTime(seconds: sum))
  }

  @Test func momentsAreOrdered() {
    #expect(UnixTime(seconds: -1) < UnixTime(seconds: 0))
    #expect(!(UnixTime(seconds: 1) < UnixTime(seconds: 1)))
  }
}
