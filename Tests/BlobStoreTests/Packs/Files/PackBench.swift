import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

@testable import BlobStore

/// The directory of packs of a cache with one record in a file.
struct PackBench {
  let cache: Cache
  let store: BlobStore
  let root: OpenRoot
  let packs: PackDirectory

  init(files: Files = Files()) throws {
    cache = try Cache()
    store = try cache.store(files: files)
    try store.store(payload(10), for: "key")
    root = try #require(try store.core.root.opened())
    packs = try #require(try PackDirectory.open(in: root, makesIt: true))
  }

  var names: TemporaryNames { store.core.temporaryNames }

  /// Returns a pack, which is created if necessary. Each call maps it again, as another process would.
  func pack(_ number: Int = 0) throws -> PackFile {
    _ = try PackFile.make(number, in: packs, names: names)
    return try #require(try PackFile.open(number, in: packs))
  }

  /// Opens a chunk of a pack for a session, and returns its entry.
  func openChunk(_ number: Int = 0, owner: UInt64 = 7, in pack: PackFile) throws -> ChunkEntry {
    let entry = pack.entry(ofChunk: number)
    try #require(entry.take(for: .survivors, owner: owner, sequence: 1))
    return entry
  }

  /// Returns an index, which is created if necessary. Each call maps it again.
  func index(buckets: Int = 100) throws -> PackIndex {
    _ = try PackIndex.make(bucketCount: buckets, boot: [1, 2], in: packs, names: names)
    return try opened()
  }

  func opened(_ name: String = PackIndex.name) throws -> PackIndex {
    switch try PackIndex.open(name, in: packs) {
    case .index(let index): return index
    case let other: throw Unexpected(what: "\(other)")
    }
  }

  struct Unexpected: Error { let what: String }

  func path(_ name: String) -> String { cache.path(".packs/" + name) }

  /// Changes bytes of a file in place.
  func change(_ name: String, _ change: (inout [UInt8]) -> Void) throws {
    var bytes = try bytes(ofFile: path(name))
    change(&bytes)
    try Data(bytes).write(to: URL(filePath: path(name)))
  }

  func fileNames() throws -> [String] {
    try FileManager.default.contentsOfDirectory(atPath: path("")).sorted()
  }
}
