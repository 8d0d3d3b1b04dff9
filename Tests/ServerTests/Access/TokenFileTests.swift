import BlobCacheServer
import Foundation
import SystemPackage
import TestSupport
import Testing

/// The validity of token files.
@Suite struct TokenFileTests {
  private static let digest = String(repeating: "0f", count: 32)
  private let directory: TemporaryDirectory
  private let path: FilePath

  init() throws {
    directory = try TemporaryDirectory()
    path = directory.path.appending("tokens")
  }

  private func write(_ text: String, mode: Int = 0o600) throws {
    try Data(text.utf8).write(to: URL(filePath: path.string))
    try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path.string)
  }

  /// Returns the error of the file, or `nil` if it is valid.
  private func complaint() -> String? {
    do {
      _ = try TokenFile.tokens(at: path)
      return nil
    } catch {
      return error.message
    }
  }

  @Test(
    arguments: [
      ("ci", [.read, .write], ""), ("a", [.admin], "builds/"), ("~!", [.read], "é %\n\u{0}#"),
    ] as [(String, Set<AccessScope>, String)])
  func aLineIsReadAsItIsWritten(name: String, scopes: Set<AccessScope>, prefix: String) throws {
    let token = AccessToken(name: name, secret: AccessToken.makeSecret(), scopes: scopes, keyPrefix: prefix)
    let anyone = AccessToken(name: "anyone", secret: nil, scopes: [.read])
    try write("# comment\n\n  \(token.line) \r\n\(anyone.line)")
    #expect(try TokenFile.tokens(at: path) == [token, anyone])
  }

  @Test func secretsDiffer() {
    let secrets = (0..<8).map { _ in AccessToken.makeSecret() }
    #expect(Set(secrets).count == 8)
    #expect(secrets.allSatisfy { $0.hasPrefix("blobcache_") && $0.count == 74 })
  }

  @Test(arguments: [
    ("ci", "a name, a digest, scopes"), ("ci sha256:\(digest)", "a name, a digest, scopes"),
    ("ci sha256:\(digest) read a b", "a name, a digest, scopes"), ("ci \(digest) read", "sha256:"),
    ("ci sha256:\(digest)00 read", "64 hexadecimal"), ("ci sha256:\(digest.dropLast()) read", "64 hexadecimal"),
    ("ci sha256:\(digest.dropLast())g read", "64 hexadecimal"),
    ("ci sha256:\(digest) reed", "read, write, pin and admin"),
    ("ci sha256:\(digest) read,", "read, write, pin and admin"), ("ci sha256:\(digest) read %4", "wrong escape"),
    ("ö sha256:\(digest) read", "ASCII"), ("", "no token"), ("# ci", "no token"),
    ("ci sha256:\(digest) read\nb sha256:\(digest.uppercased()) write", "line 2"), ("a - read\nb - read", "line 2"),
  ])
  func aWrongLineIsRefused(text: String, reason: String) throws {
    try write("\n" + text)
    let found = try #require(complaint())
    #expect(found.contains(reason.replacing("line 2", with: "line 3")))
  }

  @Test(
    arguments: [
      (0o600, nil), (0o640, nil), (0o400, nil), (0o604, "chmod o-r"), (0o644, "chmod o-r"), (0o660, "chmod go-w"),
      (0o602, "chmod go-w"),
    ] as [(Int, String?)])
  func othersMayNotReadIt(mode: Int, advice: String?) throws {
    try write("anyone - read", mode: mode)
    let found = complaint()
    if let advice { #expect(found?.contains("\(advice) \(path)") == true) } else { #expect(found == nil) }
  }

  @Test func whatIsNoFileIsSaid() throws {
    #expect(complaint()?.contains("cannot be read: No such file") == true)
    try FileManager.default.createDirectory(atPath: path.string, withIntermediateDirectories: true)
    #expect(complaint() == "it is no file")
  }

  @Test func bytesThatAreNoTextAreSaid() throws {
    try Data([0xFF]).write(to: URL(filePath: path.string))
    try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path.string)
    #expect(complaint() == "it is not UTF-8")
    try write(String(repeating: "#", count: 1 << 20 + 1))
    #expect(complaint()?.contains("File too large") == true)
  }
}
