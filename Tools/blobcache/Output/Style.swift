#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#elseif canImport(Android)
  internal import Android
#endif

struct Style {
  let isColoured: Bool

  /// ECMA-48 "select graphic rendition" codes.
  enum Colour: Int {
    case bold = 1
    case dim = 2
    case red = 31
    case green = 32
    case yellow = 33
    case cyan = 36
  }

  func callAsFunction(_ text: String, _ colour: Colour?) -> String {
    guard isColoured, let colour else { return text }
    return "\u{1B}[\(colour.rawValue)m\(text)\u{1B}[0m"
  }

  /// https://no-color.org: a NO_COLOR that is not empty disables colours. A dumb terminal has no colours.
  static var environmentAllowsColour: Bool {
    variable("NO_COLOR").isEmpty && environmentAllowsCursorMovement
  }

  /// A dumb terminal cannot erase text.
  static var environmentAllowsCursorMovement: Bool {
    variable("TERM") != "dumb"
  }

  private static func variable(_ name: String) -> String {
    getenv(name).map { String(cString: $0) } ?? ""
  }
}
