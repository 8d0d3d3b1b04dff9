import BlobRecord
import BlobStore
import Foundation
import Locks
import Logging
import Posix
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

/// A cache directory in use, next to a directory that the cache must not reach.
final class HostileCache: Sendable {
  static let goodKey: BlobKey = "good"
  static let goodPayload = Data("a payload that stays".utf8)
  /// The key that hostile things replace. Its record is stored in a subdirectory.
  static let oddKey: BlobKey = "odd"
  static let oddPath = "od/odd"
  static let outsidePayload = Data("not for you".utf8)

  private let temporary: TemporaryDirectory
  let root: FilePath
  let outside: FilePath
  let user: UInt32?
  private let packs: Bool
  private let planted = Lock<[FilePath]>([])

  /// Paths that must remain unchanged, including their content.
  var foreign: [FilePath] { planted.withLock { $0 } }

  func addForeign(_ paths: [FilePath]) { planted.withLock { $0 += paths } }

  /// - Parameters:
  ///   - user: The owner of the directory, or `nil` for this process's user. The group does not change, because a
  ///     thread that acts as another user must not set groups.
  ///   - packs: A Boolean value that indicates whether small records are stored in packs, except for pinned ones.
  init(user: UInt32?, packs: Bool = false) throws {
    temporary = try TemporaryDirectory(inMemory: true)
    root = temporary.path.appending("root")
    outside = temporary.path.appending("outside")
    self.user = user
    self.packs = packs
    let store = try makeStore(packing: .off)
    try store.store(Self.goodPayload, for: Self.goodKey)
    try store.store(Self.goodPayload, for: "pinned", locks: .one)
    if packs { try makeStore().store(Self.goodPayload, for: Self.oddKey) }
    // This would be the odd key's record if the cache followed a link.
    try makeStore(at: outside, packing: .off).store(Self.outsidePayload, for: Self.oddKey)
    try write(Array("keep".utf8), to: outside.appending("keep"))
    if let user {
      for path in TreeSnapshot(of: [temporary.path]).nodes.keys {
        try require(path.withPlatformString { lchown($0, user, .max) }, "lchown")
      }
    }
  }

  deinit {
    // This removes links instead of following them, and names that are not text.
    RawDirectory.removeTree(temporary.path)
  }

  func makeStore(
    at directory: FilePath? = nil, policy: BlobStore.DamagePolicy = .report, sizeLimit: Int64? = nil,
    lockTimeout: Duration = .milliseconds(200), files: Files = Files(), packing: BlobStore.Packing? = nil
  ) throws -> BlobStore {
    var configuration = BlobStore.Configuration()
    configuration.packing = packing ?? (packs ? .upTo(8192) : .off)
    configuration.layout.arrangement = .prefix
    configuration.limits.size = sizeLimit
    configuration.limits.freeSpaceFloor = 0
    configuration.durability = .none
    configuration.damagePolicy = policy
    configuration.access.lockTimeout = lockTimeout
    configuration.logger = Logger(label: "HostileTests", factory: { _ in SwiftLogNoOpLogHandler() })
    return try BlobStore(directory: directory ?? root, configuration: configuration, files: files)
  }

  // MARK: Making things

  func path(_ name: String) -> FilePath { root.appending(FilePath(name).components) }

  func makeDirectory(_ name: String) throws {
    let path = try clear(name)
    try require(path.withPlatformString { mkdir($0, 0o700) }, "mkdir")
    if let user { try require(path.withPlatformString { lchown($0, user, .max) }, "lchown") }
  }

  /// Removes the file at a path, and creates its parent directory.
  func clear(_ name: String) throws -> FilePath {
    let path = path(name)
    RawDirectory.removeTree(path)
    try FileManager.default.createDirectory(
      atPath: path.removingLastComponent().string, withIntermediateDirectories: true)
    if let user {
      try require(path.removingLastComponent().withPlatformString { lchown($0, user, .max) }, "lchown")
    }
    return path
  }

  func write(_ bytes: [UInt8], to path: FilePath, size: Int64? = nil) throws {
    let file = try FileDescriptor.open(
      path, .writeOnly, options: [.create, .truncate], permissions: .ownerReadWrite)
    try file.closeAfter {
      _ = try file.writeAll(bytes)
      if let size { try require(ftruncate(file.rawValue, off_t(size)), "ftruncate") }
    }
    if let user { try require(path.withPlatformString { lchown($0, user, .max) }, "lchown") }
  }

  func require(_ result: CInt, _ call: String) throws {
    guard result == 0 else { throw CallFailure(call: call, errno: Errno(rawValue: errno)) }
  }

  struct CallFailure: Error {
    var call: String
    var errno: Errno
  }
}
