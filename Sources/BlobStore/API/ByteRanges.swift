/// Ranges of a payload in the syntax of HTTP (RFC 9110, 14.1.2), such as `0-1023`, `1024-`, `-500`, or `0-9,20-29`.
///
/// The initializers return `nil` for invalid syntax, which a server can ignore or refuse. `resolved(byteCount:)` omits
/// ranges outside the payload, and a server can respond with status 416 if none remains.
public struct ByteRanges: Hashable, Sendable {
  private let specifiers: [Specifier]

  private enum Specifier: Hashable {
    /// `first-last`, where both bytes are included.
    case closed(Int64, Int64)
    /// `first-`.
    case from(Int64)
    /// `-count`, the last bytes of the payload.
    case suffix(Int64)
  }

  /// Creates ranges from text without a unit, in which numbers above 2^63-1 count as 2^63-1.
  ///
  /// The initializer returns `nil` if the text has no range, or an element that is not a range: it contains anything
  /// but digits and a hyphen, or its last byte precedes its first.
  ///
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

  /// Creates ranges from a `Range` header such as `bytes=0-1023`, or returns `nil` if it has another unit or syntax.
  public init?(headerValue: some StringProtocol) {
    let unit = "bytes="
    let value = String(headerValue)
    guard value.prefix(unit.count).lowercased() == unit else { return nil }
    self.init(value.dropFirst(unit.count))
  }

  /// Returns the ranges that are within a payload, in their order, clamped to its end.
  ///
  /// - Parameter byteCount: The number of bytes of the payload.
  /// - Returns: The ranges, of which none is empty, or an empty array if no range overlaps the payload.
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
