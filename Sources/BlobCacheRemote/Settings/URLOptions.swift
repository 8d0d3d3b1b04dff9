internal import TextFormats

/// The options behind the `?` of a URL: names and values, each once.
struct URLOptions {
  private var values: [String: String] = [:]

  /// - Parameters:
  ///   - query: such as `region=us-east-1&style=path`, with escapes.
  ///   - known: the names that there may be.
  /// - Throws: `RemoteSettingError` for another name, a second value, no value, and wrong escapes.
  init(_ query: some StringProtocol, known: Set<String>) throws(RemoteSettingError) {
    for part in query.split(separator: "&") {
      let halves = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      guard let name = PercentEncoding.decoded(halves[0]), known.contains(name) else {
        throw RemoteSettingError(
          "\(halves[0])", "there is no such option here; those are \(known.sorted().joined(separator: ", "))")
      }
      // The system would end a path at a NUL.
      guard halves.count == 2, let value = PercentEncoding.decoded(halves[1]), !value.isEmpty,
        !value.utf8.contains(0)
      else {
        throw RemoteSettingError(name, "it has no value, a wrong escape or a NUL, as in \(name)=VALUE")
      }
      guard values.updateValue(value, forKey: name) == nil else { throw RemoteSettingError(name, "it is given twice") }
    }
  }

  subscript(name: String) -> String? { values[name] }

  /// - Throws: `RemoteSettingError` for a value that is neither `true` nor `false`.
  func isTrue(_ name: String) throws(RemoteSettingError) -> Bool {
    switch values[name] {
    case nil, "false": return false
    case "true": return true
    case let value?: throw RemoteSettingError(name, "it is true or false, and not \(value)")
    }
  }
}
