/// Dates in HTTP header fields, such as `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110, 5.6.7).
package enum HTTPDate {
  private static let days = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
  private static let longDays = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"]
  private static let months = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
  ]

  /// Returns the text of a time, clamped to the years 1970 to 9999.
  package static func text(_ time: UnixTime) -> String {
    let seconds = min(max(time.seconds, 0), 253_402_300_799)
    let (day, second) = (seconds / 86_400, seconds % 86_400)
    let date = CivilDate(dayNumber: day)
    func two(_ number: Int64) -> String { number < 10 ? "0\(number)" : "\(number)" }
    let clock = "\(two(second / 3600)):\(two(second / 60 % 60)):\(two(second % 60))"
    return "\(days[Int((day + 4) % 7)]), \(two(date.day)) \(months[Int(date.month) - 1]) \(date.year) \(clock) GMT"
  }

  /// Parses a date whose year has four digits, as senders must write it, or as `asctime` does.
  ///
  /// - Returns: `nil` for another text, and for a year before 1970.
  package static func time(_ text: String) -> UnixTime? { time(text, now: nil) }

  /// Parses a date in one of the three forms that a recipient must accept (RFC 9110, 5.6.7).
  ///
  /// - Parameter now: The current time, which gives two digits of a year their century, or `nil` to reject that form.
  /// - Returns: `nil` for another text, and for a year before 1970.
  package static func time(_ text: String, now: UnixTime?) -> UnixTime? {
    let parts = text.split(separator: " ", omittingEmptySubsequences: false)
    guard let first = parts.first else { return nil }
    let hasComma = first.hasSuffix(",")
    switch (parts.count, hasComma) {
    case (6, true):
      guard days.contains(String(first.dropLast())), parts[5] == "GMT", let day = number(parts[1], digits: 2) else {
        return nil
      }
      return time(day, parts[2], number(parts[3], digits: 4), parts[4])
    case (4, true): return now.flatMap { longForm(parts, now: $0) }
    // A day of one digit has a second space before it.
    case (5, false), (6, false):
      let isShort = parts.count == 6
      guard days.contains(String(first)), !isShort || parts[2].isEmpty,
        let day = isShort ? number(parts[3], digits: 1) : number(parts[2], digits: 2)
      else { return nil }
      return time(day, parts[1], number(parts[parts.count - 1], digits: 4), parts[parts.count - 2])
    default: return nil
    }
  }

  /// Parses the form of RFC 850. A date more than 50 years ahead belongs to the century before.
  private static func longForm(_ parts: [Substring], now: UnixTime) -> UnixTime? {
    let date = parts[1].split(separator: "-", omittingEmptySubsequences: false)
    guard longDays.contains(String(parts[0].dropLast())), parts[3] == "GMT", date.count == 3,
      let day = number(date[0], digits: 2), let shortYear = number(date[2], digits: 2)
    else { return nil }
    let today = CivilDate(dayNumber: max(now.seconds, 0) / 86_400)
    let year = today.year / 100 * 100 + shortYear
    guard let found = time(day, date[1], year, parts[2]) else { return time(day, date[1], year - 100, parts[2]) }
    let limit = CivilDate(year: today.year + 50, month: today.month, day: today.day).dayNumber * 86_400
    return found.seconds > limit + max(now.seconds, 0) % 86_400 ? time(day, date[1], year - 100, parts[2]) : found
  }

  private static func time(_ day: Int64, _ month: Substring, _ year: Int64?, _ clock: Substring) -> UnixTime? {
    guard let year, year >= 1970, let month = months.firstIndex(of: String(month)) else { return nil }
    let clock = clock.split(separator: ":", omittingEmptySubsequences: false)
    guard clock.count == 3, let hour = number(clock[0], digits: 2), hour < 24,
      let minute = number(clock[1], digits: 2), minute < 60, let second = number(clock[2], digits: 2), second <= 60
    else { return nil }
    let days = CivilDate(year: year, month: Int64(month) + 1, day: day).dayNumber
    // An invalid day of the month converts to another date.
    guard CivilDate(dayNumber: days).day == day else { return nil }
    return UnixTime(seconds: days * 86_400 + hour * 3600 + minute * 60 + second)
  }

  private static func number(_ text: Substring, digits: Int) -> Int64? {
    guard text.utf8.count == digits, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
    return Int64(text)
  }
}

/// A day of the proleptic Gregorian calendar.
///
/// Source: H. Hinnant, "chrono-compatible low-level date algorithms".
package struct CivilDate {
  package let year: Int64
  package let month: Int64
  package let day: Int64

  /// - Parameter day: The day of the month; a day after the end of the month means a day of the next month.
  package init(year: Int64, month: Int64, day: Int64) {
    (self.year, self.month, self.day) = (year, month, day)
  }

  /// - Parameter dayNumber: The number of days since 1970-01-01, from the year 0 on.
  package init(dayNumber: Int64) {
    let shifted = dayNumber + 719_468
    let era = shifted / 146_097
    let dayOfEra = shifted - era * 146_097
    let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let monthFromMarch = (5 * dayOfYear + 2) / 153
    month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
    year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
    day = dayOfYear - (153 * monthFromMarch + 2) / 5 + 1
  }

  package var dayNumber: Int64 {
    let year = month <= 2 ? year - 1 : year
    let era = year / 400
    let yearOfEra = year - era * 400
    let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
    return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
  }
}
