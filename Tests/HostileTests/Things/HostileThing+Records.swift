import BlobRecord
import BlobStore
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

private let tebibyte: Int64 = 1 << 40

extension HostileThing {
  /// Things that are not files at a record's path, which every operation leaves unchanged.
  static let atTheRecord: [HostileThing] =
    OddKind.allCases.map { kind in
      HostileThing(name: "record: \(kind)", foreign: [HostileCache.oddPath]) {
        try kind.make(HostileCache.oddPath, in: $0)
      }
    } + [
      HostileThing(name: "record: device", foreign: [HostileCache.oddPath], needsRoot: true) { cache in
        let path = try cache.clear(HostileCache.oddPath)
        try cache.require(path.withPlatformString { mknod($0, S_IFCHR | 0o600, dev_t(1 << 8 | 5)) }, "mknod")
      },
      HostileThing(name: "record: another user's file", foreign: [HostileCache.oddPath], needsRoot: true) { cache in
        let path = try cache.clear(HostileCache.oddPath)
        try cache.write(OddHeader.bytes(payloadSize: 3) + [1, 2, 3], to: path)
        try cache.require(path.withPlatformString { lchown($0, 12_345, 12_345) }, "lchown")
      },
    ]

  /// Files at a record's path that belong to the cache, but contain no valid record.
  static let files: [HostileThing] =
    [0, 1, 4, 32, 63, 64].map { count in
      file("\(count) zero bytes", [UInt8](repeating: 0, count: count))
    } + [
      file("the magic alone", Array("SPTF".utf8)),
      file("64 bytes of ones", [UInt8](repeating: 0xFF, count: 64)),
      file("a header cut short", Array(OddHeader.bytes(payloadSize: 1).dropLast())),
      file("payloadSize of all ones", OddHeader.bytes(payloadSize: .max)),
      file("payloadSize of all ones, locked", OddHeader.bytes(payloadSize: .max, locked: true)),
      file("payloadSize of 2^63-1", OddHeader.bytes(payloadSize: UInt64(Int64.max))),
      file("zeros without end", [], size: tebibyte),
      file("a record of a tebibyte", OddHeader.bytes(payloadSize: UInt64(tebibyte - 64)), size: tebibyte),
      file(
        "a record of a tebibyte with a checksum", OddHeader.bytes(payloadSize: UInt64(tebibyte - 64), checksum: 1),
        size: tebibyte),
      file(
        "a locked record of a tebibyte", OddHeader.bytes(payloadSize: UInt64(tebibyte - 64), locked: true),
        size: tebibyte),
      file("damage for the quarantine", [1, 2, 3], policy: .quarantine),
      file("damage to be removed", [1, 2, 3], policy: .remove),
      file("zeros without end for the quarantine", [], size: tebibyte, policy: .quarantine),
      HostileThing(name: "file: hard link to a record outside", mayFindOutside: true) { cache in
        let path = try cache.clear(HostileCache.oddPath)
        let target = cache.outside.appending(FilePath(HostileCache.oddPath).components)
        try cache.require(target.withPlatformString { old in path.withPlatformString { link(old, $0) } }, "link")
      },
      HostileThing(name: "file: hard link to a record of a tebibyte outside") { cache in
        let path = try cache.clear(HostileCache.oddPath)
        let target = cache.outside.appending("huge")
        try cache.write(OddHeader.bytes(payloadSize: UInt64(tebibyte - 64)), to: target, size: tebibyte)
        try cache.require(target.withPlatformString { old in path.withPlatformString { link(old, $0) } }, "link")
      },
      HostileThing(name: "file: hard link to no record outside") { cache in
        let path = try cache.clear(HostileCache.oddPath)
        let target = cache.outside.appending("keep")
        try cache.require(target.withPlatformString { old in path.withPlatformString { link(old, $0) } }, "link")
      },
      permissions("file: mode 0", of: HostileCache.oddPath, 0) { cache in
        try cache.write(OddHeader.bytes(payloadSize: 1) + [1], to: try cache.clear(HostileCache.oddPath))
      },
      permissions("file: read-only", of: HostileCache.oddPath, 0o400) { cache in
        try cache.write(OddHeader.bytes(payloadSize: 1) + [1], to: try cache.clear(HostileCache.oddPath))
      },
    ]

  /// Things that have the name of a subdirectory, or prevent its use.
  static let atTheSubdirectory: [HostileThing] =
    [OddKind.fifo, .unixSocket, .linkDangling, .linkLoop, .linkToRoot, .linkToDevice, .linkToGood].map { kind in
      HostileThing(name: "subdirectory: \(kind)", foreign: ["od"]) { try kind.make("od", in: $0) }
    } + [
      HostileThing(name: "subdirectory: link to a directory of records outside", foreign: ["od"]) { cache in
        let path = try cache.clear("od")
        try cache.require(path.withPlatformString { symlink(cache.outside.appending("od").string, $0) }, "symlink")
      },
      HostileThing(name: "subdirectory: link to /", foreign: ["od"]) { cache in
        let path = try cache.clear("od")
        try cache.require(path.withPlatformString { symlink("/", $0) }, "symlink")
      },
      HostileThing(name: "subdirectory: file", foreign: ["od"]) { try $0.write([1], to: try $0.clear("od")) },
      HostileThing(name: "subdirectory: of directories", foreign: ["od/one"]) { cache in
        try cache.write([1], to: try cache.clear("od/one/two/three/odd"))
      },
      permissions("subdirectory: mode 0", of: "od", 0) { cache in
        try cache.write(OddHeader.bytes(payloadSize: 1) + [1], to: try cache.clear(HostileCache.oddPath))
      },
      permissions("subdirectory: read-only", of: "od", 0o500) { cache in
        try cache.write(OddHeader.bytes(payloadSize: 1) + [1], to: try cache.clear(HostileCache.oddPath))
      },
      permissions("subdirectory: not to be listed", of: "od", 0o300) { cache in
        try cache.write(OddHeader.bytes(payloadSize: 1) + [1], to: try cache.clear(HostileCache.oddPath))
      },
      permissions("root: read-only", of: "", 0o500, rest: .looking) { _ in },
    ]

  private static func file(
    _ name: String, _ bytes: [UInt8], size: Int64? = nil, policy: BlobStore.DamagePolicy = .report
  ) -> HostileThing {
    HostileThing(name: "file: \(name)", policy: policy) { cache in
      try cache.write(bytes, to: try cache.clear(HostileCache.oddPath), size: size)
    }
  }

  private static func permissions(
    _ name: String, of path: String, _ mode: mode_t, rest: Rest = .everything,
    _ make: @escaping @Sendable (HostileCache) throws -> Void
  ) -> HostileThing {
    HostileThing(name: name, rest: rest, needsPermissions: true) { cache in
      try make(cache)
      try cache.require(cache.path(path).withPlatformString { chmod($0, mode) }, "chmod")
    }
  }
}
