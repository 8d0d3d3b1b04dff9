import BlobRecord
import BlobStore
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// Spec/Semantics.md, I2a: a process that cannot map the control file, for example on NFS, or cannot create it.
@Suite struct UnmappedPackTests: PackedSuite {
  let cache: Cache
  let trace = CallTrace()

  init() throws { cache = try Cache() }

  enum Obstacle: CaseIterable {
    case noSharedMemory
    /// The control file is lost, and the volume has no room for a new one.
    case fullVolume
  }

  private func hinderedStore(
    _ obstacle: Obstacle, _ sharing: BlobStore.Sharing = .shared
  ) throws -> BlobStore {
    if obstacle == .fullVolume { try FileManager.default.removeItem(atPath: cache.path(".blobcache")) }
    trace.onCall { call, _ in
      switch (obstacle, call) {
      case (.noSharedMemory, .map): .fail(.operationNotSupportedByDevice)
      case (.fullVolume, .allocate): .fail(.noSpace)
      default: nil
      }
    }
    return try store(files: trace.files) { $0.access.sharing = sharing }
  }

  /// Such a process changes nothing, because others would miss its new records and still find its removed ones.
  @Test(arguments: Obstacle.allCases, [BlobStore.Sharing.shared, .exclusive])
  func itChangesNothing(obstacle: Obstacle, sharing: BlobStore.Sharing) throws {
    do {
      let writer = try store()
      try writer.store(payload(100), for: "packed")
      try writer.store(payload(9000), for: "file")
    }
    try cache.makeDirectory("")
    let store = try hinderedStore(obstacle, sharing)
    #expect(try store.load("packed") == nil)
    #expect(try store.load("file")?.payload == payload(9000))
    // The use of a file is recorded nevertheless.
    cache.clock.advance(by: 5)
    #expect(try store.load("file")?.payload == payload(9000))
    #expect(try store.header(for: "file")?.updateTime == UInt64(cache.now))
    let changes: [() throws -> Void] = [
      { try store.store(payload(50), for: "packed") }, { try store.store(payload(9001), for: "packed") },
      { try store.store(payload(50), for: "new") }, { _ = try store.remove("file") }, { _ = try store.lock("file") },
      {
        var writer = try store.openWriter(for: "stream")
        try writer.append(payload(50))
        try writer.commit()
      },
    ]
    for change in changes {
      let error = expect(obstacle == .fullVolume ? .fileSystem : .sharedMemoryRequired, change)
      #expect(error?.errno == (obstacle == .fullVolume ? .noSpace : nil))
    }
    trace.onCall(nil)
    let other = try self.store()
    #expect(try other.load("packed")?.payload == payload(100))
    #expect(Set(try other.records().map(\.key)) == ["packed", "file"])
    #expect(try other.header(for: "file")?.refCount == 0)
  }

  /// Without packs, the process changes files, and others find them.
  @Test(arguments: Obstacle.allCases) func itChangesADirectoryWithoutPacks(obstacle: Obstacle) throws {
    do { try store { $0.packing = .off }.store(payload(100), for: "old") }
    do {
      let store = try hinderedStore(obstacle)
      try store.store(payload(50), for: "new")
      #expect(try store.remove("old") == .done)
    }
    trace.onCall(nil)
    #expect(try store().load("new")?.payload == payload(50))
    #expect(try store().load("old") == nil)
  }

  /// A damaged file cannot be replaced while another process holds a lock on one of its bytes, so the store is busy.
  @Test func aDamagedControlFileIsWaitedFor() throws {
    do { try store().store(payload(100), for: "packed") }
    let path = cache.path(".blobcache")
    try Data(count: bytes(ofFile: path).count).write(to: URL(filePath: path))
    guard let root = try Directory(at: cache.root, files: Files()) else { throw CocoaError(.fileNoSuchFile) }
    guard case .regular(let holder, _) = try root.openFile(".blobcache", for: .readWrite) else {
      throw CocoaError(.fileNoSuchFile)
    }
    let byte = ControlLayout.collectorByte
    #expect(try holder.tryLock(bytes: byte..<byte + 1))
    expect(.busy) { try store { $0.access.lockTimeout = .milliseconds(20) }.store(payload(9000), for: "large") }
    try holder.unlock(bytes: byte..<byte + 1)
    try store().store(payload(9000), for: "large")
    #expect(try store().load("packed")?.payload == payload(100))
  }

  /// A key is not reported as missing if its lookup failed.
  @Test(arguments: [Errno.tooManyOpenFiles, .ioError])
  func aControlFileThatCannotBeOpenedIsAnError(errno: Errno) throws {
    do {
      try store().store(payload(100), for: "packed")
      try store().store(payload(9000), for: "large")
    }
    trace.onCall { call, path in
      call == .openBeneath && path.lastComponent?.string == ".blobcache" ? .fail(errno) : nil
    }
    let looks: [(BlobStore) throws -> Void] = [
      { _ = try $0.load("packed") }, { _ = try $0.load("large") }, { _ = try $0.contains("packed") },
      { _ = try $0.remove("packed") }, { _ = try $0.remove(prefix: "pa") }, { _ = try $0.records().map(\.key) },
    ]
    for look in looks {
      let store = try store(files: trace.files)
      for _ in 0..<2 { #expect(expect(.fileSystem) { try look(store) }?.errno == errno) }
    }
    trace.onCall(nil)
    #expect(try store().load("packed")?.payload == payload(100))
  }

  /// Without packs, a load needs no control file.
  @Test func aLoadOfAFileGoesOnWithoutIt() throws {
    do { try store { $0.packing = .off }.store(payload(100), for: "file") }
    trace.onCall { call, path in
      call == .openBeneath && path.lastComponent?.string == ".blobcache" ? .fail(.ioError) : nil
    }
    #expect(try store(files: trace.files).load("file")?.payload == payload(100))
  }
}
