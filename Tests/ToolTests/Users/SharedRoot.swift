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

/// A cache directory, `cache`, that belongs to one user and that others reach as far as its mode says.
struct SharedRoot {
  let tool: Tool

  /// What `stat` says of a file.
  struct FileState: Equatable, CustomStringConvertible {
    let mode: mode_t
    let owner: UInt32
    let group: UInt32
    let byteCount: Int64
    let inode: UInt64

    var description: String { String(mode, radix: 8) + " \(owner):\(group) \(byteCount)" }
  }

  /// - Parameters:
  ///   - mode: of the root, with the bits for set-group-id and sticky.
  ///   - owner: to whom it belongs. Its group is the one that the owner shares with the member.
  init(_ mode: mode_t, owner: CacheUser = .owner) throws {
    tool = try Tool()
    // The way to it is open to all.
    try Self.require(chmod(tool.directory.path.string, 0o755), "chmod")
    try Self.require(mkdir(path(""), 0o700), "mkdir")
    try Self.require(chown(path(""), owner.id, CacheUser.sharedGroup), "chown")
    try setMode(mode)
    // Whose the files are, and what they hold, is looked at.
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

  /// nil if nothing has the name.
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
  /// Runs a subcommand of the tool; `DIR` among the arguments stands for the root.
  func run(
    as user: CacheUser, _ arguments: String..., now: Int64? = Tool.now, input: String = "", ownGroup: Bool = false
  ) async throws -> Tool.Run {
    try await tool.run(
      arguments: arguments.map { $0 == "DIR" ? "cache" : $0 }, now: now, input: Data(input.utf8),
      wrapper: user.wrapper(ownGroup: ownGroup))
  }

  /// Stores a blob, which is expected to succeed.
  func store(_ payload: String, for key: String, as user: CacheUser, _ options: String...) async throws {
    let run = try await tool.run(
      arguments: ["store"] + options + ["cache", key], input: Data(payload.utf8), wrapper: user.wrapper())
    guard run.status == 0 else { throw Tool.Failure(message: "\(user) stores \(key): \(run.error)") }
  }

  /// What a load answers; nil if there is no such blob.
  func load(_ key: String, as user: CacheUser) async throws -> String? {
    let run = try await run(as: user, "load", "DIR", key)
    switch run.status {
    case 0: return run.text
    case 1: return nil
    default: throw Tool.Failure(message: "\(user) loads \(key): \(run.error)")
    }
  }

  /// The numbers that `usage` gives.
  func usage(as user: CacheUser) async throws -> [String: JSONValue] {
    let run = try await run(as: user, "usage", "--json", "DIR")
    guard run.status == 0, let numbers = try run.objects().first else { throw Tool.Failure(message: run.error) }
    return numbers
  }
}

// MARK: - What users do without a program of the cache

extension SharedRoot {
  /// Makes a file with these bytes and this length; past its bytes it is sparse.
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

  /// Why a user may not open a file so; nil where it is possible.
  func refusal(toOpen file: String, _ flags: CInt, as user: CacheUser) throws -> Errno? {
    let path = path(file)
    return try user.act {
      let descriptor = open(path, flags | O_CLOEXEC | O_NONBLOCK)
      guard descriptor >= 0 else { return Errno(rawValue: errno) }
      close(descriptor)
      return nil
    }
  }

  /// Why a user may not rename a file; nil where it was done.
  func refusal(toRename file: String, to name: String, as user: CacheUser) throws -> Errno? {
    let (old, new) = (path(file), path(name))
    return try user.act { rename(old, new) == 0 ? nil : Errno(rawValue: errno) }
  }

  func refusal(toRemove file: String, as user: CacheUser) throws -> Errno? {
    let path = path(file)
    return try user.act { unlink(path) == 0 ? nil : Errno(rawValue: errno) }
  }

  /// Opens a file as one of the users, for as long as the descriptor is kept.
  func descriptor(
    of file: String, _ mode: FileDescriptor.AccessMode = .readOnly, as user: CacheUser
  ) throws -> FileDescriptor {
    let path = FilePath(path(file))
    return try user.act { try FileDescriptor.open(path, mode) }
  }
}
