import Testing
import TextFormats

@Suite struct QuantitiesTests {
  @Test(arguments: [
    (-1, "0 B"), (0, "0 B"), (999, "999 B"), (1000, "1.0 KB"), (34_151, "34.2 KB"), (999_949, "999.9 KB"),
    (999_950, "1.0 MB"), (2_000_000_000, "2.0 GB"), (1_500_000_000_000, "1.5 TB"), (3_000_000_000_000_000, "3.0 PB"),
    (.max, "9.2 EB"),
  ])
  func bytesHaveTheLargestUnitThatFits(count: Int64, text: String) {
    #expect(Quantities.bytes(count) == text)
  }

  @Test(arguments: [(999, "999 B"), (1_500_000_000_000, "1.5 TB"), (.max, "9223372.0 TB")])
  func bytesHaveNoLargerUnitThanTheLast(count: Int64, text: String) {
    #expect(Quantities.bytes(count, in: Quantities.byteUnits.prefix(4)) == text)
  }

  @Test(arguments: [
    (-1, "0s"), (0, "0s"), (59, "59s"), (60, "1m"), (3599, "59m"), (3600, "1h"), (14_399, "3h"), (86_400, "1d"),
    (31_535_999, "364d"), (31_536_000, "1y"), (315_359_999_999, "9999y"), (315_360_000_000, "ages"), (.max, "ages"),
  ])
  func spansHaveTheLargestUnitThatFits(seconds: Int64, text: String) {
    #expect(Quantities.span(seconds) == text)
  }
}
