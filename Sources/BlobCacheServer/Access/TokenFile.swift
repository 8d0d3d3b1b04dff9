public import SystemPackage

/// A file with the tokens of a server, one per line: Spec/Server.md, *Tokens*.
public enum TokenFile {
  /// Reads the tokens of a file.
  ///
  /// - Parameter path: The path of the file, which other users must not be able to read.
  /// - Returns: The tokens, in the order of their lines.
  /// - Throws: `SecretFileError` if the file cannot be read or has an invalid line, or if other users can access it.
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
      // If two lines had the same digest, it would be unclear which one applies.
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

enum SecretFile {
  private static let maximumByteCount = 1 << 20

  /// - Parameter isSecret: `false` for a file that other users may read, but not change.
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
    // A pipe has the mode of its creator, and no name that other users could open.
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

/// The reason why a file of tokens, keys or certificates is rejected.
public struct SecretFileError: Error, CustomStringConvertible {
  /// The path of the file.
  public let path: FilePath
  /// A description of the mistake, and of its remedy.
  public let message: String

  init(_ path: FilePath, _ message: String) {
    self.path = path
    self.message = message
  }

  public var description: String { "\(path): \(message)" }
}
