/// The fields of a directory in a configuration file that only a server uses.
package enum ServedField: String, CaseIterable {
  /// The name of the directory in requests. The default is the last component of its path.
  case name
  case remote
  case remoteMode
  case remoteWriting
  case remoteTimeout
  case remoteRevalidate
  case remoteRewrite
  case remoteAnnounce
  case remoteSealKey
  case remoteFlush

  /// The name of the server's option for the field.
  package var option: String {
    rawValue.reduce(into: "--") { text, letter in
      text += letter.isUppercase ? "-" + letter.lowercased() : String(letter)
    }
  }
}
