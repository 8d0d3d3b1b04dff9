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

/// The cache directory of one fuzz process. It is recreated for each input.
struct PackWorkspace {
  let directory: FilePath

  static let only = PackWorkspace(
    directory: FilePath(getenv("BLOBCACHE_FUZZ_DIRECTORY").map { String(cString: $0) } ?? "/tmp")
      .appending("blobcache-fuzz-packs-\(getpid())"))

  var pack: FilePath { directory.appending(".packs").appending("p-0") }

  /// Opens a store with the time 0, so that no record expires.
  func store() throws(BlobStoreError) -> BlobStore {
    var configuration = BlobStore.Configuration()
    configuration.packing = .upTo(8192)
    configuration.layout.arrangement = .prefix
    configuration.durability = .none
    configuration.limits.freeSpaceFloor = 0
    configuration.now = { UnixTime(seconds: 0) }
    return try BlobStore(directory: directory, configuration: configuration)
  }

  /// Recreates the directory with only the input's pack in it.
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

  /// Removes the index and the control file, as a reboot does.
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
