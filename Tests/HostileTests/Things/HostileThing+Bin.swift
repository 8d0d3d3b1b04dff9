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

extension HostileThing {
  /// Things that have the name of the recycling bin, or that are stored in it under one of its names.
  static let bins: [HostileThing] =
    (OddKind.allCases.filter { $0 != .directory }).map { kind in
      // For a directory the content is checked, because the cache may add and remove files there.
      HostileThing(name: "bin: \(kind)", foreign: [kind == .fullDirectory ? ".recycled/file" : ".recycled"]) { cache in
        try kind.make(".recycled", in: cache)
      }
    } + [
      HostileThing(name: "bin: file", foreign: [".recycled"]) { try $0.write([1], to: try $0.clear(".recycled")) },
      HostileThing(name: "bin: link to a directory outside", foreign: [".recycled"]) { cache in
        let path = try cache.clear(".recycled")
        try cache.require(path.withPlatformString { symlink(cache.outside.appending("od").string, $0) }, "symlink")
      },
      HostileThing(name: "bin: another user's", foreign: [".recycled"], needsRoot: true) { cache in
        try cache.makeDirectory(".recycled")
        try fill(cache)
        try cache.require(cache.path(".recycled").withPlatformString { lchown($0, 12_345, 12_345) }, "lchown")
      },
      HostileThing(
        name: "bin: another user's files", foreign: names.map { ".recycled/\($0)" }, needsRoot: true
      ) { cache in
        try cache.makeDirectory(".recycled")
        try fill(cache)
        for name in names {
          try cache.require(cache.path(".recycled/\(name)").withPlatformString { lchown($0, 12_345, 12_345) }, "lchown")
        }
      },
      permissions("bin: mode 0", 0),
      permissions("bin: read-only", 0o500),
      permissions("bin: not to be listed", 0o300),
      HostileThing(name: "bin: hard links to a record outside") { cache in
        try cache.makeDirectory(".recycled")
        let target = cache.outside.appending(FilePath(HostileCache.oddPath).components)
        for name in names {
          let path = cache.path(".recycled/\(name)")
          try cache.require(target.withPlatformString { old in path.withPlatformString { link(old, $0) } }, "link")
        }
      },
      HostileThing(name: "bin: of a tebibyte") { cache in
        try cache.makeDirectory(".recycled")
        try cache.write([], to: cache.path(".recycled/" + RecycledName.of("1")), size: 1 << 40)
      },
    ]
    + OddKind.allCases.map { kind in
      HostileThing(name: "bin: of \(kind)", foreign: names.map { ".recycled/\($0)" }) { cache in
        try cache.makeDirectory(".recycled")
        for name in names { try kind.make(".recycled/\(name)", in: cache) }
      }
    }

  /// Names that the bin generates.
  private static let names = ["0", "1", "ffffffffffffffff"].map(RecycledName.of)

  private static func fill(_ cache: HostileCache) throws {
    for name in names {
      try cache.write(OddHeader.bytes(payloadSize: 3) + [1, 2, 3], to: cache.path(".recycled/\(name)"))
    }
  }

  private static func permissions(_ name: String, _ mode: mode_t) -> HostileThing {
    HostileThing(name: name, needsPermissions: true) { cache in
      try cache.makeDirectory(".recycled")
      try fill(cache)
      try cache.require(cache.path(".recycled").withPlatformString { chmod($0, mode) }, "chmod")
    }
  }
}
