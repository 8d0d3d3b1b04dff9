import BlobCacheServer
import Foundation

/// The installed third-party programs: Tools/prerequisites, `try_build_clients`.
enum ClientPrograms {
  /// - Returns: The path of a program in PATH, or `nil` if it is not installed.
  static func path(_ name: String) -> String? {
    let folders = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":")
    return folders.map { "\($0)/\(name)" }.first { FileManager.default.isExecutableFile(atPath: $0) }
  }

  static func areInstalled(_ names: String...) -> Bool { names.allSatisfy { path($0) != nil } }

  /// A Boolean value that indicates whether to run tools that take a minute to start: `Tools/test --long clients`.
  static var runsSlowOnes: Bool { ProcessInfo.processInfo.environment["BLOBCACHE_SLOW_CLIENTS"] != nil }
}

/// A folder with a build, and the environment of a client.
final class Workplace {
  let folder: URL
  var environment: [String: String]

  init() throws {
    folder = FileManager.default.temporaryDirectory.appending(path: "blobcache-client-\(UInt32.random(in: 0 ... .max))")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    environment = ["PATH": ProcessInfo.processInfo.environment["PATH"] ?? "", "HOME": folder.path, "LC_ALL": "C.UTF-8"]
  }

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

  /// Returns the options of a server that requires the token `Workplace.token` and limits it to a key prefix.
  func tokenOptions(keyPrefix: String) throws -> [String] {
    let token = AccessToken(name: "ci", secret: Self.token, scopes: [.read, .write], keyPrefix: keyPrefix)
    try write(token.line + "\n", to: "tokens")
    let path = folder.appending(path: "tokens").path
    try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path)
    return ["--tokens", path]
  }

  static let token = "blobcache_0123456789abcdef"

  func exists(_ name: String) -> Bool { FileManager.default.fileExists(atPath: folder.appending(path: name).path) }

  /// Runs a program in PATH here until it exits.
  ///
  /// - Returns: The standard output and the standard error.
  /// - Throws: `Failure` if the program fails.
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
