/// Ranges of a payload as HTTP writes them (RFC 9110, 14.1.2): `0-1023`, `1024-`, `-500`, or several with commas.
///
/// What is no range at all is nil when it is read. What lies beyond a payload is left out when it is resolved. So a server
/// ignores or refuses the one, and answers the other with 416.
public struct ByteRanges: Hashable, Sendable {
  private let specifiers: [Specifier]

  private enum Specifier: Hashable {
    /// `first-last`, both included.
    case closed(Int64, Int64)
    /// `first-`.
    case from(Int64)
    /// `-count`: so many bytes at the end.
    case suffix(Int64)
  }

  /// Reads ranges without a unit.
  ///
  /// Numbers above 2^63-1 count as that.
  ///
  /// - Returns: nil if one of them is no range: no number, a sign, or a last byte before the first.
  /// - Complexity: O(*n*) for *n* bytes of text.
  public init?(_ text: some StringProtocol) {
    var specifiers: [Specifier] = []
    for part in String(text).utf8.split(separator: UInt8(ascii: ","), omittingEmptySubsequences: false) {
      let element = Self.trimmed(part)
      // A list may have empty elements (RFC 9110, 5.6.1).
      if element.isEmpty { continue }
      guard let specifier = Self.specifier(element) else { return nil }
      specifiers.append(specifier)
    }
    guard !specifiers.isEmpty else { return nil }
    self.specifiers = specifiers
  }

  /// Reads the value of a `Range` header, such as `bytes=0-1023`.
  ///
  /// - Returns: nil for another unit, or if one of them is no range.
  public init?(headerValue: some StringProtocol) {
    let unit = "bytes="
    let value = String(headerValue)
    guard value.prefix(unit.count).lowercased() == unit else { return nil }
    self.init(value.dropFirst(unit.count))
  }

  /// The ranges that a payload has, in their order, cut off at its end.
  ///
  /// - Parameter byteCount: of the payload.
  /// - Returns: nothing if none of them lies in the payload; no range is empty.
  public func resolved(byteCount: Int64) -> [Range<Int64>] {
    specifiers.compactMap { specifier in
      switch specifier {
      case .closed(let first, let last):
        first < byteCount ? first..<min(last, byteCount - 1) + 1 : nil
      case .from(let first):
        first < byteCount ? first..<byteCount : nil
      case .suffix(let count):
        count > 0 && byteCount > 0 ? byteCount - min(count, byteCount)..<byteCount : nil
      }
    }
  }
}

// MARK: - Reading

extension ByteRanges {
  private static func trimmed(_ bytes: some BidirectionalCollection<UInt8>) -> [UInt8] {
    func isBlank(_ byte: UInt8) -> Bool { byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") }
    let start = bytes.drop(while: isBlank)
    return Array(start.reversed().drop(while: isBlank).reversed())
  }

  private static func specifier(_ bytes: [UInt8]) -> Specifier? {
    guard let dash = bytes.firstIndex(of: UInt8(ascii: "-")) else { return nil }
    let (before, after) = (bytes[..<dash], bytes[(dash + 1)...])
    guard !before.isEmpty else { return number(after).map { .suffix($0) } }
    guard let first = number(before) else { return nil }
    guard !after.isEmpty else { return .from(first) }
    guard let last = number(after), last >= first else { return nil }
    return .closed(first, last)
  }

  /// - Returns: nil for anything but digits.
  private static func number(_ digits: ArraySlice<UInt8>) -> Int64? {
    guard !digits.isEmpty else { return nil }
    var number: Int64 = 0
    for digit in digits {
      guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(digit) else { return nil }
      let (product, overflows) = number.multipliedReportingOverflow(by: 10)
      number = overflows ? .max : product.saturatingAdding(Int64(digit - UInt8(ascii: "0")))
    }
    return number
  }
}
