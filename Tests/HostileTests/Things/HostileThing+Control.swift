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
  /// Things that have the name of the control file.
  static let controls: [HostileThing] =
    OddKind.allCases.map { kind in
      HostileThing(name: "control: \(kind)", foreign: [".blobcache"], rest: .looking) { cache in
        try cache.write(OddHeader.bytes(payloadSize: 1) + [1], to: try cache.clear(HostileCache.oddPath))
        try kind.make(".blobcache", in: cache)
      }
    } + [
      control("empty", []),
      control("a byte", [0]),
      control("zeros of the right size", [], size: ControlBytes.count),
      control("garbage of the right size", SeededBytes.make(count: Int(ControlBytes.count))),
      control("cut short after the header", ControlBytes.header, size: 4096),
      control("cut short by a byte", ControlBytes.header, size: ControlBytes.count - 1),
      control("longer by a byte", ControlBytes.header, size: ControlBytes.count + 1),
      control("of a tebibyte", [], size: 1 << 40),
      control("of an earlier version", ControlBytes.header(version: ControlLayout.version - 1), size: 528_384),
      control("of version 0", ControlBytes.header(version: 0), size: ControlBytes.count),
      control(
        "of a later version", ControlBytes.header(version: ControlLayout.version + 1), size: ControlBytes.count,
        isLater: true),
      control("of a later version and another size", ControlBytes.header(version: 7), size: 16, isLater: true),
      control("with counters of all ones", ControlBytes.oddCounters, size: ControlBytes.count),
      control("with statistics of all ones", ControlBytes.oddStatistics, size: ControlBytes.count),
      control("with marks of all ones", ControlBytes.oddMarks, size: ControlBytes.count),
      control("with sessions and stripes of all ones", ControlBytes.oddStripes, size: ControlBytes.count),
      control("with odd generations", ControlBytes.oddGenerations, size: ControlBytes.count),
      control("with an odd base of the generations", ControlBytes.oddBase, size: ControlBytes.count),
      HostileThing(name: "control: hard link to a foreign file outside") { cache in
        let path = try cache.clear(".blobcache")
        let target = cache.outside.appending("keep")
        try cache.require(target.withPlatformString { old in path.withPlatformString { link(old, $0) } }, "link")
      },
      HostileThing(name: "control: mode 0", foreign: [".blobcache"], rest: .looking, needsPermissions: true) { cache in
        try cache.require(cache.path(".blobcache").withPlatformString { chmod($0, 0) }, "chmod")
      },
      HostileThing(
        name: "control: read-only", foreign: [".blobcache"], rest: .looking, needsPermissions: true
      ) { cache in
        try cache.require(cache.path(".blobcache").withPlatformString { chmod($0, 0o400) }, "chmod")
      },
    ]

  private static func control(
    _ name: String, _ bytes: [UInt8], size: Int64? = nil, isLater: Bool = false
  ) -> HostileThing {
    HostileThing(
      name: "control: \(name)", foreign: isLater ? [".blobcache"] : [], rest: isLater ? .looking : .everything
    ) { cache in
      try cache.write(bytes, to: try cache.clear(".blobcache"), size: size)
    }
  }
}

/// Control files according to Spec/ControlFile.md.
enum ControlBytes {
  static let count = Int64(ControlLayout.byteCount)

  static let header = header(version: ControlLayout.version)

  static func header(version: UInt64) -> [UInt8] {
    var bytes = Array("BLOBCTL\0".utf8) + [UInt8](repeating: 0, count: 8)
    put(version, at: 8, in: &bytes)
    return bytes
  }

  static var oddCounters: [UInt8] { filled(128..<168) }
  static var oddStatistics: [UInt8] { filled(192..<304) }
  static var oddMarks: [UInt8] { filled(ControlLayout.marksOffset..<ControlLayout.sessionsOffset) }
  static var oddStripes: [UInt8] { filled(ControlLayout.sessionsOffset..<Int(count)) }
  static var oddGenerations: [UInt8] { filled(4096..<ControlLayout.marksOffset) }
  static var oddBase: [UInt8] { header + [UInt8](repeating: 0xFF, count: 8) }

  private static func filled(_ range: Range<Int>) -> [UInt8] {
    var bytes = header + [UInt8](repeating: 0, count: range.upperBound - 16)
    for index in range { bytes[index] = 0xFF }
    // The words that mark the rest as present.
    if range.lowerBound < 4096 { put(1 as UInt64, at: range.lowerBound, in: &bytes) }
    return bytes
  }
}

/// Random bytes from a fixed seed.
enum SeededBytes {
  static func make(count: Int) -> [UInt8] {
    var generator = SeededGenerator(seed: 1)
    return generator.bytes(count)
  }
}
