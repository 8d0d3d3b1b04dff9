internal import BlobRecord
internal import BlobStore
internal import FuzzSupport
internal import SystemPackage

#if canImport(FoundationEssentials)
  internal import FoundationEssentials
#else
  internal import Foundation
#endif

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#elseif canImport(Android)
  internal import Android
#endif

/// A cache directory of one fuzz process, which is made anew for each input.
struct PackWorkspace {
  let directory: FilePath

  static let only = PackWorkspace(
    directory: FilePath(getenv("BLOBCACHE_FUZZ_DIRECTORY").map { String(cString: $0) } ?? "/tmp")
      .appending("blobcache-fuzz-packs-\(getpid())"))

  var pack: FilePath { directory.appending(".packs").appending("p-0") }

  /// Nothing expires: it is the beginning of time.
  func store() throws(BlobStoreError) -> BlobStore {
    var configuration = BlobStore.Configuration()
    configuration.packing = .upTo(8192)
    configuration.layout.arrangement = .prefix
    configuration.durability = .none
    configuration.limits.freeSpaceFloor = 0
    configuration.now = { UnixTime(seconds: 0) }
    return try BlobStore(directory: directory, configuration: configuration)
  }

  /// Puts the input's pack into a directory that holds nothing else.
  func place(_ input: PackInput) {
    do {
      if FileManager.default.fileExists(atPath: directory.string) {
        try FileManager.default.removeItem(atPath: directory.string)
      }
      for path in [directory, directory.appending(".packs")] {
        require(mkdir(path.string, 0o700) == 0, "\(path) cannot be made")
      }
      let file = try FileDescriptor.open(
        pack, .writeOnly, options: [.create, .exclusiveCreate, .closeOnExec], permissions: .ownerReadWrite)
      try file.closeAfter {
        try file.writeAll(toAbsoluteOffset: 0, Self.header)
        try file.writeAll(toAbsoluteOffset: 69_632, input.deadSector)
        try file.writeAll(toAbsoluteOffset: 2_166_784, input.chunk)
      }
    } catch {
      violated("\(pack): \(error)")
    }
  }

  /// The index and the control file are lost, as by a boot.
  func loseIndex() {
    for path in [directory.appending(".packs").appending("index"), directory.appending(".blobcache")] {
      _ = unlink(path.string)
    }
  }

  private static let header: [UInt8] = {
    var bytes = [UInt8](repeating: 0, count: 64)
    let words: [UInt64] = [0x4B43_4150_424F_4C42, 1, 0, 1024, 1_032_192, 1]
    for (index, word) in words.enumerated() { bytes.put(word, at: 8 * index) }
    bytes.put(ReferenceChecksum.crc32(bytes[..<60]), at: 60)
    return bytes
  }()
}
