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
    let (date, second) = (CivilDate(dayNumber: seconds / 86_400), seconds % 86_400)
    func digits(_ number: Int64, _ count: Int) -> String {
      let text = String(number)
      return String(repeating: "0", count: max(0, count - text.count)) + text
    }
    day = digits(date.year, 4) + digits(date.month, 2) + digits(date.day, 2)
    text = "\(day)T\(digits(second / 3600, 2))\(digits(second / 60 % 60, 2))\(digits(second % 60, 2))Z"
  }
}
