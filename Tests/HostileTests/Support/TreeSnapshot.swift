import BlobRecord
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

/// The type and content of everything at and below a path, by the bytes of names.
struct TreeSnapshot: Equatable {
  struct Node: Equatable {
    var mode: UInt32
    var inode: UInt64
    var owner: UInt32
    var size: Int64
    var modifiedSeconds: Int64
    var modifiedNanoseconds: Int64
    var linkTarget: [CChar]?
    /// The checksum, or `nil` if the node is not a file, not readable, or too large.
    var checksum: UInt32?
  }

  private(set) var nodes: [FilePath: Node] = [:]

  /// - Parameter paths: The paths to include. Symbolic links are not followed.
  init(of paths: [FilePath]) {
    for path in paths { add(path) }
  }

  private mutating func add(_ path: FilePath) {
    var status = stat()
    guard path.withPlatformString({ lstat($0, &status) }) == 0 else { return }
    let kind = status.st_mode & S_IFMT
    nodes[path] = Node(
      mode: UInt32(status.st_mode), inode: UInt64(status.st_ino), owner: status.st_uid, size: Int64(status.st_size),
      modifiedSeconds: Int64(status.st_mtim.tv_sec), modifiedNanoseconds: Int64(status.st_mtim.tv_nsec),
      linkTarget: kind == S_IFLNK ? Self.target(of: path) : nil,
      checksum: kind == S_IFREG && status.st_size < 4 << 20 ? Self.checksum(of: path) : nil)
    if kind == S_IFDIR {
      for name in RawDirectory.names(in: path) { add(path.appending(name)) }
    }
  }

  private static func target(of path: FilePath) -> [CChar] {
    var target = [CChar](repeating: 0, count: 4096)
    let count = path.withPlatformString { readlink($0, &target, target.count) }
    return Array(target.prefix(max(count, 0)))
  }

  private static func checksum(of path: FilePath) -> UInt32? {
    guard let file = try? FileDescriptor.open(path, .readOnly, options: [.nonBlocking, .noFollow]) else { return nil }
    defer { try? file.close() }
    var crc = CRC32()
    var buffer = [UInt8](repeating: 0, count: 65_536)
    while let count = try? buffer.withUnsafeMutableBytes({ try file.read(into: $0) }), count > 0 {
      crc.update(Array(buffer[..<count]).span.bytes)
    }
    return crc.value
  }

  /// Returns a readable description of the differences.
  func difference(to other: TreeSnapshot) -> String {
    var lines: [String] = []
    for path in Set(nodes.keys).union(other.nodes.keys).sorted(by: { $0.string < $1.string }) {
      guard nodes[path] != other.nodes[path] else { continue }
      lines.append("\(path): \(nodes[path].map { "\($0)" } ?? "-") became \(other.nodes[path].map { "\($0)" } ?? "-")")
    }
    return lines.joined(separator: "\n")
  }
}
