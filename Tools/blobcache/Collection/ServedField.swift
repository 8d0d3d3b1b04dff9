/// The fields of a directory in a configuration file that concern a server alone.
package enum ServedField: String, CaseIterable {
  /// By which requests find it; if it is not there, the last part of its path.
  case name
  /// The URL of its remote tier.
  case remote
  case remoteMode
  case remoteWriting
  case remoteTimeout
  case remoteRevalidate
  case remoteRewrite
  case remoteAnnounce
  case remoteSealKey

  /// As an option of the server's has it.
  package var option: String {
    rawValue.reduce(into: "--") { text, letter in
      text += letter.isUppercase ? "-" + letter.lowercased() : String(letter)
    }
  }
}
