public import SystemPackage

/// The tokens of a server, in a file of lines: Spec/Server.md, *Tokens*.
public enum TokenFile {
  /// Reads the tokens.
  ///
  /// - Parameter path: of the file, which other users may not read.
  /// - Returns: the tokens, in the order of their lines.
  /// - Throws: `SecretFileError` if the file cannot be read, if others may read or change it, or if a line is wrong.
  public static func tokens(at path: FilePath) throws(SecretFileError) -> [AccessToken] {
    try tokens(in: SecretFile.text(at: path), path)
  }

  static func tokens(in text: String, _ path: FilePath) throws(SecretFileError) -> [AccessToken] {
    var tokens: [AccessToken] = []
    var number = 0
    for line in text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline) {
      number += 1
      let line = line.trimmingBlanks
      guard !line.isEmpty, !line.hasPrefix("#") else { continue }
      let token: AccessToken
      do {
        token = try AccessToken(line: line)
      } catch {
        throw SecretFileError(path, "line \(number): \(error.message)")
      }
      // Of two lines with one digest, it would be left to chance which holds.
      guard !tokens.contains(where: { $0.digest == token.digest }) else {
        throw SecretFileError(path, "line \(number): an earlier line has this digest too")
      }
      tokens.append(token)
    }
    guard !tokens.isEmpty else {
      throw SecretFileError(path, "there is no token; blobcache-serve token NAME makes one, and prints its line")
    }
    return tokens
  }
}
