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
  /// Things that have the name of the packs' directory, of a pack, or of a file next to it. The odd key is packed.
  static let packs = directories + inPlaces + contents

  private static let directories: [HostileThing] =
    (OddKind.allCases.filter { $0 != .directory }).map { kind in
      // For a directory the content is checked, because the cache may create packs there.
      packs("\(kind)", foreign: [kind == .fullDirectory ? ".packs/file" : ".packs"]) { try kind.make(".packs", in: $0) }
    } + [
      owned(".packs"), owned(".packs/index", rest: .nothing), owned(".packs/p-0"), permissions("mode 0", 0),
      permissions("not to be entered", 0o600),
    ]

  private static let inPlaces: [HostileThing] = names.flatMap { name in
    [OddKind.fifo, .linkOutside].map { kind in
      let rest = name == "index" ? Rest.nothing : .everything
      return packs("\(kind) at \(name)", foreign: [".packs/\(name)"], rest: rest) { cache in
        try kind.make(".packs/\(name)", in: cache)
      }
    }
  }

  private static let contents: [HostileThing] = ["p-0", "index", "checkpoint"].flatMap { name in
    [
      content("empty", of: name, []), content("a byte", of: name, [0]),
      content("garbage", of: name, SeededBytes.make(count: 100_000)),
      content("of a tebibyte", of: name, [], size: 1 << 40), hardLink(of: name),
    ]
  }

  private static let names = ["p-0", "p-1", "index", "index.next", "checkpoint", ".tmp-1"]

  private static func packs(
    _ name: String, foreign: [String] = [], rest: Rest = .everything, needsPermissions: Bool = false,
    needsRoot: Bool = false, _ plant: @escaping @Sendable (HostileCache) throws -> Void
  ) -> HostileThing {
    HostileThing(
      name: "packs: \(name)", foreign: foreign, rest: rest, needsPermissions: needsPermissions, needsRoot: needsRoot,
      packs: true, plant: plant)
  }

  private static func owned(_ name: String, rest: Rest = .everything) -> HostileThing {
    packs("another user's \(name)", foreign: [name], rest: rest, needsRoot: true) { cache in
      try cache.require(cache.path(name).withPlatformString { lchown($0, 12_345, 12_345) }, "lchown")
    }
  }

  private static func hardLink(of name: String) -> HostileThing {
    packs("\(name), hard link to a foreign file outside") { cache in
      let path = try cache.clear(".packs/\(name)")
      let target = cache.outside.appending("keep")
      try cache.require(target.withPlatformString { old in path.withPlatformString { link(old, $0) } }, "link")
    }
  }

  private static func content(
    _ title: String, of name: String, _ bytes: [UInt8], size: Int64? = nil
  ) -> HostileThing {
    packs("\(name), \(title)") { cache in
      try cache.write(bytes, to: try cache.clear(".packs/\(name)"), size: size)
    }
  }

  private static func permissions(_ name: String, _ mode: mode_t) -> HostileThing {
    packs(name, rest: .nothing, needsPermissions: true) { cache in
      try cache.require(cache.path(".packs").withPlatformString { chmod($0, mode) }, "chmod")
    }
  }
}
