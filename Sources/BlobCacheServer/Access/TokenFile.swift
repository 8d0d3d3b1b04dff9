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

/// A file that is for the server alone, and for its administrators.
enum SecretFile {
  /// Larger than any list of tokens or chain of certificates.
  private static let maximumByteCount = 1 << 20

  /// - Parameter isSecret: false for a file that others may read, though not change.
  /// - Throws: `SecretFileError` if it cannot be read, is not UTF-8, or other users may read or change it.
  static func text(at path: FilePath, isSecret: Bool = true) throws(SecretFileError) -> String {
    let bytes = try bytes(at: path, isSecret: isSecret)
    guard let text = String(validating: bytes, as: UTF8.self) else { throw SecretFileError(path, "it is not UTF-8") }
    return text
  }

  private static func bytes(at path: FilePath, isSecret: Bool) throws(SecretFileError) -> [UInt8] {
    do {
      let file = try FileDescriptor.open(path, .readOnly)
      return try file.closeAfter { try checkedBytes(of: file, path, isSecret: isSecret) }
    } catch let error as SecretFileError {
      throw error
    } catch {
      throw SecretFileError(path, "it cannot be read: \(error)")
    }
  }

  private static func checkedBytes(of file: FileDescriptor, _ path: FilePath, isSecret: Bool) throws -> [UInt8] {
    let status = try file.stat()
    guard status.type == .regular || status.type == .fifo else { throw SecretFileError(path, "it is no file") }
    // A pipe has the mode of whoever made it, and no name that others could open.
    if status.type == .regular {
      guard !isSecret || !status.permissions.contains(.otherRead) else {
        throw SecretFileError(path, "other users may read it; chmod o-r \(path) changes that")
      }
      guard status.permissions.isDisjoint(with: [.groupWrite, .otherWrite]) else {
        throw SecretFileError(path, "other users may change it; chmod go-w \(path) changes that")
      }
    }
    var bytes: [UInt8] = []
    let piece = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 14, alignment: 1)
    defer { unsafe piece.deallocate() }
    while true {
      let count = try unsafe file.read(into: piece)
      guard count > 0 else { return bytes }
      unsafe bytes += piece[..<count]
      guard bytes.count <= maximumByteCount else { throw Errno.fileTooLarge }
    }
  }
}

/// Why a file of tokens, keys or certificates is not used.
public struct SecretFileError: Error, CustomStringConvertible {
  /// The file.
  public let path: FilePath
  /// What is wrong with it, and what to do.
  public let message: String

  init(_ path: FilePath, _ message: String) {
    self.path = path
    self.message = message
  }

  /// The path and the message.
  public var description: String { "\(path): \(message)" }
}
