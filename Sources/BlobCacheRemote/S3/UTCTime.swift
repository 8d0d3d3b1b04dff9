internal import BlobRecord

/// A moment of UTC as protocols write it.
struct UTCTime: Equatable {
  /// `20130524`.
  let day: String
  /// `20130524T000000Z`.
  let text: String

  /// - Parameter time: from 1970 to 9999; others are held at these bounds.
  init(_ time: UnixTime) {
    let seconds = min(max(time.seconds, 0), 253_402_300_799)
    let (date, second) = (Self.civil(seconds / 86_400), seconds % 86_400)
    func digits(_ number: Int64, _ count: Int) -> String {
      let text = String(number)
      return String(repeating: "0", count: max(0, count - text.count)) + text
    }
    day = digits(date.year, 4) + digits(date.month, 2) + digits(date.day, 2)
    text = "\(day)T\(digits(second / 3600, 2))\(digits(second / 60 % 60, 2))\(digits(second % 60, 2))Z"
  }

  // Source: H. Hinnant, "chrono-compatible low-level date algorithms".
  private static func civil(_ day: Int64) -> (year: Int64, month: Int64, day: Int64) {
    let shifted = day + 719_468
    let era = shifted / 146_097
    let dayOfEra = shifted - era * 146_097
    let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let monthFromMarch = (5 * dayOfYear + 2) / 153
    let month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
    return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, dayOfYear - (153 * monthFromMarch + 2) / 5 + 1)
  }
}
