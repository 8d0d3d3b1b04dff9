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

extension HostileThing {
  /// Names that no record has, at the root and in a subdirectory.
  static let strangers: [HostileThing] =
    [
      stranger("of 255 bytes", Array(repeating: UInt8(ascii: "x"), count: 255)),
      stranger("of 255 bytes of escapes", Array(String(repeating: "%2F", count: 85).utf8)),
      stranger("with a newline and an escape", Array("new\nline\u{1B}[31m".utf8)),
      stranger("that is not UTF-8", [0x66, 0xFF, 0xC3, 0x28]),
      stranger("that is a surrogate", [0xED, 0xA0, 0x80]),
      stranger("that is one byte of two", [0xC3]),
      stranger("with a bad escape", Array("od%2".utf8)),
      stranger("with a needless escape", Array("od%41".utf8)),
      stranger("with an escaped dot inside", Array("od%2E%2E".utf8)),
      stranger("of a hidden file", Array(".hidden".utf8)),
      stranger("of three dots", Array("...".utf8)),
      stranger("that looks like an option", Array("--".utf8)),
    ] + [
      HostileThing(name: "strangers: a thousand files", foreign: ["other"]) { cache in
        let directory = try cache.clear("other")
        try cache.require(directory.withPlatformString { mkdir($0, 0o700) }, "mkdir")
        for index in 0..<1000 { try cache.write([], to: directory.appending("\(index)")) }
      },
      HostileThing(
        name: "strangers: hundreds of files among the records",
        foreign: (0..<300).map { "od/foreign-\($0)" }
      ) { cache in
        for index in 0..<300 { try cache.write([1], to: try cache.clear("od/foreign-\(index)")) }
      },
      HostileThing(name: "strangers: records in another place", foreign: ["elsewhere", "go/odd"]) { cache in
        let record = OddHeader.bytes(payloadSize: 1) + [1]
        try cache.write(record, to: try cache.clear("elsewhere/odd"))
        try cache.write(record, to: try cache.clear("go/odd"))
      },
    ]

  /// Things that look like temporary files.
  static let temporaries: [HostileThing] =
    OddKind.allCases.map { kind in
      HostileThing(name: "temporary: \(kind)", foreign: [".tmp-1", "od/.tmp-1"]) {
        try kind.make(".tmp-1", in: $0)
        try kind.make("od/.tmp-1", in: $0)
      }
    } + [
      HostileThing(name: "temporary: another user's", foreign: [".tmp-1"], needsRoot: true) { cache in
        let path = try cache.clear(".tmp-1")
        try cache.write([1], to: path)
        try cache.require(path.withPlatformString { lchown($0, 12_345, 12_345) }, "lchown")
      },
      HostileThing(name: "temporary: locked", foreign: [".tmp-1", "od/.tmp-2"]) { cache in
        for name in [".tmp-1", "od/.tmp-2"] {
          let path = try cache.clear(name)
          try cache.write([1], to: path)
          // The descriptor stays open, because the lock must outlast the operation. It ends with the process.
          let descriptor = path.withPlatformString { open($0, O_RDONLY | O_CLOEXEC) }
          try cache.require(flock(descriptor, LOCK_EX | LOCK_NB), "flock")
        }
      },
      HostileThing(name: "temporary: abandoned, of a tebibyte") { cache in
        try cache.write([1], to: try cache.clear("od/.tmp-2"), size: 1 << 40)
      },
      HostileThing(name: "temporary: hard link to outside") { cache in
        let path = try cache.clear(".tmp-3")
        let target = cache.outside.appending("keep")
        try cache.require(target.withPlatformString { old in path.withPlatformString { link(old, $0) } }, "link")
      },
    ]

  /// Things that have the name of the quarantine, with a damaged file that a load would move there.
  static let quarantines: [HostileThing] =
    (OddKind.allCases.filter { $0 != .directory && $0 != .fullDirectory }).map { kind in
      HostileThing(name: "quarantine: \(kind)", foreign: [".quarantine"], policy: .quarantine) { cache in
        try cache.write([1, 2, 3], to: try cache.clear(HostileCache.oddPath))
        try kind.make(".quarantine", in: cache)
      }
    } + [
      HostileThing(name: "quarantine: file", foreign: [".quarantine"], policy: .quarantine) { cache in
        try cache.write([1, 2, 3], to: try cache.clear(HostileCache.oddPath))
        try cache.write([1], to: try cache.clear(".quarantine"))
      },
      HostileThing(
        name: "quarantine: full of oddities",
        foreign: [".quarantine/directory", ".quarantine/link", ".quarantine/fifo"], policy: .quarantine
      ) { cache in
        try cache.write([1, 2, 3], to: try cache.clear(HostileCache.oddPath))
        try OddKind.fullDirectory.make(".quarantine/directory", in: cache)
        try OddKind.linkOutside.make(".quarantine/link", in: cache)
        try OddKind.fifo.make(".quarantine/fifo", in: cache)
      },
      HostileThing(
        name: "quarantine: a directory has the file's name", foreign: [".quarantine/odd"], policy: .quarantine
      ) { cache in
        try cache.write([1, 2, 3], to: try cache.clear(HostileCache.oddPath))
        try OddKind.fullDirectory.make(".quarantine/odd", in: cache)
      },
    ]

  private static func stranger(_ name: String, _ bytes: [UInt8]) -> HostileThing {
    HostileThing(name: "stranger: \(name)") { cache in
      cache.addForeign([cache.root, cache.path("od")].map { $0.appending(component(bytes)) })
      try cache.makeDirectory("od")
      for path in cache.foreign { try cache.write([1, 2, 3], to: path) }
    }
  }

  private static func component(_ bytes: [UInt8]) -> FilePath.Component {
    let name = bytes.map { CInterop.PlatformChar(bitPattern: $0) } + [0]
    guard let component = FilePath.Component(platformString: name) else { preconditionFailure("\(bytes) is no name") }
    return component
  }
}
