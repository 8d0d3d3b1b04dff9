import BlobStore
import Foundation
import SystemPackage
import TestSupport

#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#elseif canImport(Android)
  import Android
#endif

/// A cache directory, `cache`, that belongs to one user and is accessible to others according to its mode.
struct SharedRoot {
  let tool: Tool

  /// The status of a file.
  struct FileState: Equatable, CustomStringConvertible {
    let mode: mode_t
    let owner: UInt32
    let group: UInt32
    let byteCount: Int64
    let inode: UInt64

    var description: String { String(mode, radix: 8) + " \(owner):\(group) \(byteCount)" }
  }

  /// - Parameters:
  ///   - mode: The mode of the root, including the set-group-ID and sticky bits.
  ///   - owner: The owner of the root. Its group is shared by owner and member.
  init(_ mode: mode_t, owner: CacheUser = .owner) throws {
    tool = try Tool()
    // The parent directory is accessible to all users.
    try Self.require(chmod(tool.directory.path.string, 0o755), "chmod")
    try Self.require(mkdir(path(""), 0o700), "mkdir")
    try Self.require(chown(path(""), owner.id, CacheUser.sharedGroup), "chown")
    try setMode(mode)
    // The tests check the owners and the content of files.
    try BlobStore.changeSettings(of: FilePath(path(""))) { $0.packing = .off }
    try Self.require(lchown(path(".blobcache.conf"), owner.id, CacheUser.sharedGroup), "lchown")
  }

  func path(_ file: String) -> String {
    tool.directory.path.string + (file.isEmpty ? "/cache" : "/cache/" + file)
  }

  func setMode(_ mode: mode_t, of file: String = "") throws { try Self.require(chmod(path(file), mode), "chmod") }

  func give(_ file: String, to user: CacheUser) throws {
    try Self.require(lchown(path(file), user.id, user.group), "lchown")
  }

  /// Returns the state of a file, or `nil` if it does not exist.
  func state(_ file: String) -> FileState? {
    var status = stat()
    guard lstat(path(file), &status) == 0 else { return nil }
    return FileState(
      mode: status.st_mode & 0o7777, owner: status.st_uid, group: status.st_gid, byteCount: Int64(status.st_size),
      inode: UInt64(status.st_ino))
  }

  static func require(_ result: CInt, _ call: String) throws {
    if result < 0 { throw Tool.Failure(message: "\(call): \(Errno(rawValue: errno))") }
  }
}

// MARK: - Verbs, as programs of their users

extension SharedRoot {
  /// Runs a subcommand of the tool; `DIR` in the arguments is replaced by the root.
  func run(
    as user: CacheUser, _ arguments: String..., now: Int64? = Tool.now, input: String = "", ownGroup: Bool = false
  ) async throws -> Tool.Run {
    try await tool.run(
      arguments: arguments.map { $0 == "DIR" ? "cache" : $0 }, now: now, input: Data(input.utf8),
      wrapper: user.wrapper(ownGroup: ownGroup))
  }

  /// Stores a blob and expects success.
  func store(_ payload: String, for key: String, as user: CacheUser, _ options: String...) async throws {
    let run = try await tool.run(
      arguments: ["store"] + options + ["cache", key], input: Data(payload.utf8), wrapper: user.wrapper())
    guard run.status == 0 else { throw Tool.Failure(message: "\(user) stores \(key): \(run.error)") }
  }

  /// Returns the loaded payload, or `nil` if the key does not exist.
  func load(_ key: String, as user: CacheUser) async throws -> String? {
    let run = try await run(as: user, "load", "DIR", key)
    switch run.status {
    case 0: return run.text
    case 1: return nil
    default: throw Tool.Failure(message: "\(user) loads \(key): \(run.error)")
    }
  }

  /// Returns the output of `usage`.
  func usage(as user: CacheUser) async throws -> [String: JSONValue] {
    let run = try await run(as: user, "usage", "--json", "DIR")
    guard run.status == 0, let numbers = try run.objects().first else { throw Tool.Failure(message: run.error) }
    return numbers
  }
}

// MARK: - What users do without a program of the cache

extension SharedRoot {
  /// Creates a file with these bytes, which is extended to the length as a sparse file.
  func plant(
    _ file: String, _ bytes: [UInt8] = [], byteCount: Int64? = nil, mode: mode_t = 0o644, as user: CacheUser
  ) throws {
    let path = path(file)
    try user.act {
      let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
      try Self.require(descriptor, "open \(path)")
      defer { close(descriptor) }
      try Self.require(CInt(write(descriptor, bytes, bytes.count)), "write")
      if let byteCount { try Self.require(ftruncate(descriptor, off_t(byteCount)), "ftruncate") }
      try Self.require(fchmod(descriptor, mode), "fchmod")
    }
  }

  func plantDirectory(_ name: String, mode: mode_t = 0o755, as user: CacheUser) throws {
    let path = path(name)
    try user.act {
      try Self.require(mkdir(path, 0o700), "mkdir \(path)")
      try Self.require(chmod(path, mode), "chmod")
    }
  }

  /// Returns the error of opening a file as a user, or `nil` if it can be opened.
  func refusal(toOpen file: String, _ flags: CInt, as user: CacheUser) throws -> Errno? {
    let path = path(file)
    return try user.act {
      let descriptor = open(path, flags | O_CLOEXEC | O_NONBLOCK)
      guard descriptor >= 0 else { return Errno(rawValue: errno) }
      close(descriptor)
      return nil
    }
  }

  /// Returns the error of renaming a file as a user, or `nil` if it was renamed.
  func refusal(toRename file: String, to name: String, as user: CacheUser) throws -> Errno? {
    let (old, new) = (path(file), path(name))
    return try user.act { rename(old, new) == 0 ? nil : Errno(rawValue: errno) }
  }

  func refusal(toRemove file: String, as user: CacheUser) throws -> Errno? {
    let path = path(file)
    return try user.act { unlink(path) == 0 ? nil : Errno(rawValue: errno) }
  }

  /// Opens a file as one of the users, for the lifetime of the descriptor.
  func descriptor(
    of file: String, _ mode: FileDescriptor.AccessMode = .readOnly, as user: CacheUser
  ) throws -> FileDescriptor {
    let path = FilePath(path(file))
    return try user.act { try FileDescriptor.open(path, mode) }
  }
}
