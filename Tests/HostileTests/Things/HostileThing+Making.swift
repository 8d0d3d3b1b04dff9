import BlobRecord
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

/// Kinds of things that can occupy a name where a file is expected.
enum OddKind: String, CaseIterable {
  case directory, fullDirectory, fifo, unixSocket, linkToGood, linkOutside, linkDangling, linkLoop, linkToRoot,
    linkToDevice

  /// Creates the thing at a name, and replaces the existing file.
  func make(_ name: String, in cache: HostileCache) throws {
    let path = try cache.clear(name)
    func link(to target: String) throws {
      try cache.require(path.withPlatformString { symlink(target, $0) }, "symlink")
    }
    switch self {
    case .directory: try cache.require(path.withPlatformString { mkdir($0, 0o700) }, "mkdir")
    case .fullDirectory:
      try cache.require(path.withPlatformString { mkdir($0, 0o700) }, "mkdir")
      try cache.write([1], to: path.appending("file"))
    case .fifo: try cache.require(path.withPlatformString { mkfifo($0, 0o600) }, "mkfifo")
    case .unixSocket:
      // A socket address has room for a short path only, so the socket is created outside and moved.
      let made = cache.outside.appending("socket")
      try Self.makeSocket(at: made)
      try cache.require(
        made.withPlatformString { from in path.withPlatformString { rename(from, $0) } }, "rename")
    case .linkToGood: try link(to: cache.path("go/good").string)
    case .linkOutside: try link(to: cache.outside.appending(FilePath(HostileCache.oddPath).components).string)
    case .linkDangling: try link(to: cache.outside.appending("missing").string)
    case .linkLoop: try link(to: path.string)
    case .linkToRoot: try link(to: cache.root.string)
    case .linkToDevice: try link(to: "/dev/zero")
    }
  }

  private static func makeSocket(at path: FilePath) throws {
    #if canImport(Glibc)
      let descriptor = socket(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0)
    #else
      let descriptor = socket(AF_UNIX, SOCK_STREAM, 0)
    #endif
    defer { close(descriptor) }
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    let isLongEnough = withUnsafeMutableBytes(of: &address.sun_path) { buffer in
      guard path.string.utf8.count < buffer.count else { return false }
      buffer.copyBytes(from: path.string.utf8)
      return true
    }
    guard isLongEnough else { throw CocoaError(.fileWriteInvalidFileName) }
    let result = withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
    guard result == 0 else { throw HostileCache.CallFailure(call: "bind", errno: Errno(rawValue: errno)) }
  }
}

/// Headers for files at the odd key's path.
enum OddHeader {
  /// - Parameter checksum: The payload checksum, or `nil` for a record without one.
  static func bytes(payloadSize: UInt64, checksum: UInt32? = nil, locked: Bool = false) -> [UInt8] {
    var header = RecordHeader(
      refCount: locked ? 1 : 0, updateTime: UInt64(clamping: Int64(Date().timeIntervalSince1970)),
      payloadSize: payloadSize)
    header.payloadChecksum = checksum
    return header.encodedBytes
  }
}
