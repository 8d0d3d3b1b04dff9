import BlobRecord
import Testing

@Suite struct HTTPDateTests {
  @Test(arguments: [
    (0, "Thu, 01 Jan 1970 00:00:00 GMT"), (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
    (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"), (1_700_000_000, "Tue, 14 Nov 2023 22:13:20 GMT"),
    (1_795_722_330, "Thu, 26 Nov 2026 19:45:30 GMT"), (4_107_542_399, "Sun, 28 Feb 2100 23:59:59 GMT"),
    (253_402_300_799, "Fri, 31 Dec 9999 23:59:59 GMT"),
  ])
  func aTimeIsWrittenAndRead(seconds: Int64, text: String) {
    #expect(HTTPDate.text(UnixTime(seconds: seconds)) == text)
    #expect(HTTPDate.time(text) == UnixTime(seconds: seconds))
  }

  /// RFC 9110, 5.6.7: the two obsolete forms of a date, one of which has two digits of a year.
  @Test(
    arguments: [
      ("Sunday, 06-Nov-94 08:49:37 GMT", 784_111_777), ("Sun Nov  6 08:49:37 1994", 784_111_777),
      ("Thu Nov 26 19:45:30 2026", 1_795_722_330), ("Thursday, 26-Nov-26 19:45:30 GMT", 1_795_722_330),
      ("Tuesday, 29-Feb-00 00:00:00 GMT", 951_782_400), ("Fri Dec 31 23:59:59 9999", 253_402_300_799),
      // 50 years after the current time, and a second later.
      ("Tuesday, 14-Nov-73 22:13:20 GMT", 3277923200), ("Wednesday, 14-Nov-73 22:13:21 GMT", 122163201),
      ("Friday, 14-Nov-75 22:13:21 GMT", 185235201),
    ] as [(String, Int64)])
  func anObsoleteFormIsRead(text: String, seconds: Int64) {
    #expect(HTTPDate.time(text, now: UnixTime(seconds: 1_700_000_000))?.seconds == seconds)
  }

  /// A leap day of the century before is found, even if the current century has none.
  @Test func aLeapDayHasItsCentury() {
    let now = UnixTime(seconds: 4_107_542_399)
    #expect(HTTPDate.time("Tuesday, 29-Feb-00 00:00:00 GMT", now: now)?.seconds == 951_782_400)
  }

  @Test(arguments: [
    "Sun, 06-Nov-94 08:49:37 GMT", "Sunday, 6-Nov-94 08:49:37 GMT", "Sunday, 06-Nov-1994 08:49:37 GMT",
    "Sunday, 06-Nov-94 08:49:37 CET", "Sunday, 06-Nov 08:49:37 GMT", "Sunday, 31-Feb-94 08:49:37 GMT",
    "Sun Nov 6 08:49:37 1994", "Sun Nov  06 08:49:37 1994", "Sun Nov x 6 08:49:37 1994", "Sun Nov  6 08:49:37 94",
    "Sun Nov  6 08:49 1994", "Sun Nov  6 08:49:37 1969", "Xxx Nov  6 08:49:37 1994", "Sun Xxx  6 08:49:37 1994",
    "Sun Nov  6 08:49:37 1994 GMT", "",
  ])
  func whatIsNoObsoleteFormIsNil(text: String) {
    #expect(HTTPDate.time(text, now: UnixTime(seconds: 1_700_000_000)) == nil)
  }

  @Test func everyDayIsReadAsItWasWritten() {
    for day in stride(from: 0, to: 60_000, by: 1) {
      let time = UnixTime(seconds: Int64(day) * 86_400 + 3723)
      #expect(HTTPDate.time(HTTPDate.text(time)) == time)
    }
  }

  @Test(arguments: [
    "", "now", "7", "Thu, 01 Jan 1970 00:00:00 UTC", "Thu, 01 Foo 1970 00:00:00 GMT", "Thu, 32 Jan 1970 00:00:00 GMT",
    "Thu, 01 Jan 1969 00:00:00 GMT", "Thursday, 01-Jan-70 00:00:00 GMT", "Sunday, 06-Nov-94 08:49:37 GMT",
    "Sun, 06 Nov 1994 08:49:37 CET",
    "Sun, 6 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1969 08:49:37 GMT", "Sun, 06 Now 1994 08:49:37 GMT",
    "Sun, 31 Feb 1994 08:49:37 GMT", "Sun, 00 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 24:49:37 GMT",
    "Sun, 06 Nov 1994 08:60:37 GMT", "Sun, 06 Nov 1994 08:49:61 GMT", "Xxx, 06 Nov 1994 08:49:37 GMT",
    "Sun, 06 Nov 1994 8:49:37 GMT", "Sun, 06 Nov 1994 08:49 GMT",
  ])
  func whatIsNoDateIsNil(text: String) {
    #expect(HTTPDate.time(text) == nil)
  }
}
