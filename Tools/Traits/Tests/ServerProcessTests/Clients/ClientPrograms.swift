import BlobCacheServer
import Foundation

/// Programs that other people wrote, where they are installed: Tools/prerequisites, `try_build_clients`.
enum ClientPrograms {
  /// - Returns: the path of a program on the PATH; nil if there is none.
  static func path(_ name: String) -> String? {
    let folders = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":")
    return folders.map { "\($0)/\(name)" }.first { FileManager.default.isExecutableFile(atPath: $0) }
  }

  static func areInstalled(_ names: String...) -> Bool { names.allSatisfy { path($0) != nil } }

  /// Whether tools that take a minute to start are run, too: `Tools/test --long clients`.
  static var runsSlowOnes: Bool { ProcessInfo.processInfo.environment["BLOBCACHE_SLOW_CLIENTS"] != nil }
}

/// A folder with a build in it, and the environment in which a client runs.
final class Workplace {
  let folder: URL
  var environment: [String: String]

  init() throws {
    folder = FileManager.default.temporaryDirectory.appending(path: "blobcache-client-\(UInt32.random(in: 0 ... .max))")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    environment = ["PATH": ProcessInfo.processInfo.environment["PATH"] ?? "", "HOME": folder.path, "LC_ALL": "C.UTF-8"]
  }

  // What is left over disturbs nobody.
  deinit { try? FileManager.default.removeItem(at: folder) }

  func write(_ text: String, to name: String) throws {
    let file = folder.appending(path: name)
    try FileManager.default.createDirectory(at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
    try Data(text.utf8).write(to: file)
  }

  func remove(_ names: String...) throws {
    for name in names {
      let path = folder.appending(path: name).path
      if FileManager.default.fileExists(atPath: path) { try FileManager.default.removeItem(atPath: path) }
    }
  }

  /// A server's options, with which it asks for a token: `Workplace.token`, for some keys alone.
  func tokenOptions(keyPrefix: String) throws -> [String] {
    let token = AccessToken(name: "ci", secret: Self.token, scopes: [.read, .write], keyPrefix: keyPrefix)
    try write(token.line + "\n", to: "tokens")
    let path = folder.appending(path: "tokens").path
    try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path)
    return ["--tokens", path]
  }

  static let token = "blobcache_0123456789abcdef"

  func exists(_ name: String) -> Bool { FileManager.default.fileExists(atPath: folder.appending(path: name).path) }

  /// Runs a program of the PATH here, to its end.
  ///
  /// - Returns: what it wrote, on standard output and standard error.
  /// - Throws: `Failure` if it fails.
  @discardableResult
  func run(_ arguments: String...) throws -> String { try run(arguments) }

  @discardableResult
  func run(_ arguments: [String]) throws -> String {
    guard let path = ClientPrograms.path(arguments[0]) else { throw Failure("there is no \(arguments[0])") }
    let process = Process()
    process.executableURL = URL(filePath: path)
    process.arguments = Array(arguments.dropFirst())
    process.currentDirectoryURL = folder
    process.environment = environment
    let output = folder.appending(path: "output-\(UUID().uuidString)")
    try Data().write(to: output)
    let file = try FileHandle(forWritingTo: output)
    process.standardInput = FileHandle.nullDevice
    process.standardOutput = file
    process.standardError = file
    try process.run()
    process.waitUntilExit()
    let text = String(decoding: try Data(contentsOf: output), as: UTF8.self)
    try FileManager.default.removeItem(at: output)
    guard process.terminationStatus == 0 else {
      throw Failure("\(arguments) ends with \(process.terminationStatus): \(text)")
    }
    return text
  }
}
