internal import BlobRecord

extension UnixTime {
  private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

  /// A date of a header field, such as `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110, 5.6.7).
  ///
  /// - Parameter httpDate: nil and other forms make nil.
  init?(httpDate: String?) {
    guard let parts = httpDate?.split(separator: " "), parts.count == 6, parts[5] == "GMT", parts[0].hasSuffix(",")
    else {
      return nil
    }
    let numbers = ([parts[1], parts[3]] + parts[4].split(separator: ":")).map { Int64($0) }
    guard numbers.count == 5, let day = numbers[0], let year = numbers[1], let hour = numbers[2],
      let minute = numbers[3],
      let second = numbers[4], let month = Self.months.firstIndex(of: String(parts[2])), (1...31).contains(day),
      (1970...9999).contains(year), (0..<24).contains(hour), (0..<60).contains(minute), (0...60).contains(second)
    else { return nil }
    // Source: H. Hinnant, "chrono-compatible low-level date algorithms", with years that begin in March.
    let shifted = month < 2 ? year - 1 : year
    let yearOfEra = shifted % 400
    let dayOfYear = (153 * ((Int64(month) + 10) % 12) + 2) / 5 + day - 1
    let days = shifted / 400 * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    self.init(seconds: days * 86_400 + hour * 3600 + minute * 60 + second)
  }
}
