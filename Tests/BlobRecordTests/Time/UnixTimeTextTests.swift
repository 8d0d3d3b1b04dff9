import BlobRecord
import Testing

@Suite struct UnixTimeTextTests {
  @Test(arguments: [
    (-1, "before 1970"), (.min, "before 1970"), (0, "1970-01-01T00:00:00Z"), (951_827_696, "2000-02-29T12:34:56Z"),
    (1_700_000_000, "2023-11-14T22:13:20Z"), (253_402_300_799, "9999-12-31T23:59:59Z"),
    (253_402_300_800, "after 9999"), (.max, "after 9999"),
  ])
  func aTimeIsWrittenInISO8601(seconds: Int64, text: String) {
    #expect(UnixTime(seconds: seconds).iso8601 == text)
  }

  @Test(arguments: [
    (1000, 1000, "now"), (1540, 1000, "in 9m"), (1000, 11_800, "3h ago"), (.max, 0, "never"),
    (.max, -1, "never"), (.min, 0, "long ago"), (.min, 1, "long ago"), (0, 34_560_000, "1y ago"),
  ])
  func aTimeIsToldByItsDistance(seconds: Int64, now: Int64, text: String) {
    #expect(UnixTime(seconds: seconds).relative(to: UnixTime(seconds: now)) == text)
  }
}
