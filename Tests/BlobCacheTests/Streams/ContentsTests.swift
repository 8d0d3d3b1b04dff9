import BlobCache
import BlobRecord
import BlobStore
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// Spec/Semantics.md, A40 to A42: files and pipes through the cache.
@Suite(.timeLimit(.minutes(30))) struct ContentsTests {
  let test: TestCache

  init() throws { test = try TestCache() }

  private func write(_ bytes: Data, to end: FileDescriptor) throws { _ = try end.writeAll(bytes) }

  /// A41: pipes without data occupy no thread, and block no store, export or other pipe.
  @Test func slowPipesStopNothing() async throws {
    let cache = try test.cache { $0.maxConcurrentOperations = 2 }
    let pipes = try (0..<12).map { _ in try FileDescriptor.pipe() }
    defer { for pipe in pipes { try? pipe.readEnd.close() } }
    let stores = pipes.enumerated().map { number, pipe in
      Task { try await cache.store(contentsOf: pipe.readEnd, for: "pipe \(number)") }
    }
    // Each store has begun, and has received its first bytes.
    for pipe in pipes { try write(payload(10), to: pipe.writeEnd) }
    try await until { cache.inputWaitCount == 12 && test.temporaryBytes() == 12 * 74 }
    try await cache.store(payload(5), for: "key")
    let file = test.outside.path.appending("file")
    #expect(try await cache.export("key", to: file) == 5)
    #expect(try await cache.store(contentsOf: file, for: "copy") == 5)
    let (readEnd, writeEnd) = try FileDescriptor.pipe()
    try writeEnd.closeAfter { try write(payload(7), to: writeEnd) }
    #expect(try await cache.store(contentsOf: readEnd, for: "another") == 7)
    try readEnd.close()
    for pipe in pipes.reversed() { try pipe.writeEnd.closeAfter { try write(payload(10, 2), to: pipe.writeEnd) } }
    for (number, store) in stores.enumerated() {
      #expect(try await store.value == 20)
      #expect(try await cache.load(BlobKey("pipe \(number)"))?.payload == payload(10) + payload(10, 2))
    }
    #expect(cache.inputWaitCount == 0)
  }

  /// A41: pipes that are being committed block no store.
  @Test func slowCommitsStopNoStore() async throws {
    let cache = try test.cache {
      $0.maxConcurrentOperations = 2
      $0.store.durability = .automatic
    }
    // These stores create all directories.
    for key in ["key", "pipe"] as [BlobKey] { try await cache.store(payload(5), for: key) }
    test.disk.hold(.sync)
    let stores = try (0..<2).map { number in
      let (readEnd, writeEnd) = try FileDescriptor.pipe()
      try writeEnd.closeAfter { try write(payload(10), to: writeEnd) }
      return Task {
        defer { try? readEnd.close() }
        return try await cache.store(contentsOf: readEnd, for: "pipe \(number)", locks: .one)
      }
    }
    try await test.disk.waitForHeld(2)
    try await cache.store(payload(6), for: "key")
    test.disk.letGo()
    for store in stores { #expect(try await store.value == 10) }
  }

  /// A41: a pipe that yields single bytes releases its thread between two of them.
  @Test func aTricklingPipeStopsNothing() async throws {
    let cache = try test.cache { $0.maxConcurrentOperations = 1 }
    try await cache.store(payload(5), for: "key")
    let (readEnd, writeEnd) = try FileDescriptor.pipe()
    defer { try? readEnd.close() }
    let isDone = Latch()
    let trickle = Task.detached {
      defer { try? writeEnd.close() }
      for count in 1..<500_000 {
        _ = try writeEnd.writeAll([1])
        if isDone.isOpen { return count }
        await Task.yield()
      }
      Issue.record("the pipe has kept the thread")
      return 0
    }
    let store = Task { try await cache.store(contentsOf: readEnd, for: "pipe") }
    try await until { test.temporaryBytes() > 64 }
    #expect(try await cache.export("key", to: test.outside.path.appending("file")) == 5)
    isDone.open()
    #expect(try await Int64(trickle.value) == store.value)
  }

  /// Y33: a store with `whileWriting` can be followed while it is written from a pipe or a file.
  @Test(arguments: [true, false]) func aVisibleStoreIsFollowed(isPipe: Bool) async throws {
    let cache = try test.cache { $0.writing = .behind(BlobCache.WriteBehind()) }
    try await cache.store(payload(5), for: "key")
    let path = test.outside.path.appending("file")
    guard isPipe else {
      try payload(3_000_000).write(to: URL(filePath: path.string))
      #expect(try await cache.store(contentsOf: path, for: "key", visibility: .whileWriting, moving: true) == 3_000_000)
      #expect(!FileManager.default.fileExists(atPath: path.string))
      #expect(try await cache.load("key")?.payload == payload(3_000_000))
      return
    }
    let (readEnd, writeEnd) = try FileDescriptor.pipe()
    defer { try? readEnd.close() }
    let store = Task { try await cache.store(contentsOf: readEnd, for: "key", visibility: .whileWriting) }
    try write(payload(10), to: writeEnd)
    try await until {
      cache.inputWaitCount == 1 && (try? Data(contentsOf: URL(filePath: test.path("ke/key"))))?.count == 74
    }
    let follower = try #require(try await cache.openFollower(for: "key"))
    var bytes = Data()
    try writeEnd.closeAfter { try write(payload(10, 2), to: writeEnd) }
    for try await piece in follower.pieces() { bytes += piece }
    #expect(bytes == payload(10) + payload(10, 2))
    #expect(try await store.value == 20)
  }

  /// A41: if a system call that waits for the pipe fails, the store throws an error, and no file is left.
  @Test(arguments: [SystemCall.pipe, .poll]) func aWaitThatFailsIsAnErrorOfTheStore(call: SystemCall) async throws {
    let cache = try test.cache()
    let (readEnd, writeEnd) = try FileDescriptor.pipe()
    defer { for end in [readEnd, writeEnd] { try? end.close() } }
    test.disk.fail(call, .tooManyOpenFiles)
    let error = await #expect(throws: BlobStoreError.self) { try await cache.store(contentsOf: readEnd, for: "key") }
    #expect(error?.code == .fileSystem && error?.errno == .tooManyOpenFiles)
    #expect(error?.key == "key" && error?.operation == "store")
    #expect(test.temporaryBytes() == 0)
  }

  /// A41: a cancelled store leaves no file, even if the pipe never yields a byte.
  @Test(arguments: [0, 10]) func aCancelledStoreLeavesNothing(byteCount: Int) async throws {
    let cache = try test.cache()
    try await cache.store(payload(5), for: "key")
    let (readEnd, writeEnd) = try FileDescriptor.pipe()
    defer { for end in [readEnd, writeEnd] { try? end.close() } }
    try write(payload(byteCount), to: writeEnd)
    let store = Task { try await cache.store(contentsOf: readEnd, for: "key") }
    try await until { cache.inputWaitCount == 1 }
    store.cancel()
    await #expect(throws: CancellationError.self) { _ = try await store.value }
    #expect(cache.inputWaitCount == 0 && test.temporaryBytes() == 0)
    #expect(try await cache.load("key")?.payload == payload(5))
  }

  /// A41, A14: if the cache is closed in the meantime, the store ends with the next bytes, and leaves no file.
  @Test func aCacheThatIsClosedTakesNoMore() async throws {
    let cache = try test.cache()
    let (readEnd, writeEnd) = try FileDescriptor.pipe()
    defer { for end in [readEnd, writeEnd] { try? end.close() } }
    try write(payload(10), to: writeEnd)
    let store = Task { try await cache.store(contentsOf: readEnd, for: "key") }
    try await until { cache.inputWaitCount == 1 }
    try await cache.close()
    try write(payload(10), to: writeEnd)
    await expect(.closed) { _ = try await store.value }
    #expect(test.temporaryBytes() == 0)
  }

  /// A41: a named pipe occupies no thread either, even before it has a writer.
  @Test func aNamedPipeIsWaitedFor() async throws {
    let cache = try test.cache()
    let path = test.outside.path.appending("pipe")
    #expect(mkfifo(path.string, 0o600) == 0)
    let store = Task { try await cache.store(contentsOf: path, for: "key", moving: true) }
    try await until { cache.inputWaitCount == 1 }
    let writer = try FileDescriptor.open(path, .writeOnly, options: .closeOnExec)
    try writer.closeAfter { try write(payload(1000), to: writer) }
    #expect(try await store.value == 1000)
    #expect(try await cache.load("key")?.payload == payload(1000))
    #expect(FileManager.default.fileExists(atPath: path.string))
  }

  /// Y32: a source with fewer or more bytes than announced is not stored.
  @Test(arguments: [99, 101], [true, false]) func anotherSizeIsNotStored(byteCount: Int, isPipe: Bool) async throws {
    let cache = try test.cache()
    let path = test.outside.path.appending("file")
    try payload(byteCount).write(to: URL(filePath: path.string))
    let error = await #expect(throws: BlobStoreError.self) {
      if isPipe {
        let (readEnd, writeEnd) = try FileDescriptor.pipe()
        defer { try? readEnd.close() }
        try writeEnd.closeAfter { try write(payload(byteCount), to: writeEnd) }
        try await cache.store(contentsOf: readEnd, for: "key", expectedSize: 100)
      } else {
        try await cache.store(contentsOf: path, for: "key", expectedSize: 100)
      }
    }
    #expect(error?.code == .sizeMismatch && error?.key == "key")
    #expect(try await cache.load("key") == nil)
    #expect(test.temporaryBytes() == 0)
  }

  /// Y31: a file is moved into the cache.
  @Test func filesAreMovedIn() async throws {
    let cache = try test.cache()
    let path = test.outside.path.appending("file")
    try payload(300_000).write(to: URL(filePath: path.string))
    try await cache.store(payload(1), for: "key")
    #expect(try await cache.store(contentsOf: path, for: "key", moving: true) == 300_000)
    #expect(!FileManager.default.fileExists(atPath: path.string))
    #expect(try await cache.load("key")?.payload == payload(300_000))
  }

  /// A12b: the staged blob of the key is superseded, and so is a production.
  @Test func aPipeReplacesWhatIsStaged() async throws {
    let cache = try test.cache { $0.writing = .behind(BlobCache.WriteBehind()) }
    try await cache.store(payload(5), for: "key")
    let (readEnd, writeEnd) = try FileDescriptor.pipe()
    try writeEnd.closeAfter { try write(payload(30), to: writeEnd) }
    #expect(try await cache.store(contentsOf: readEnd, for: "key") == 30)
    try readEnd.close()
    try await cache.flush()
    #expect(try await cache.load("key")?.payload == payload(30))
  }

  /// A42: staged blobs can be exported, and readers export ranges.
  @Test func exportsWhatIsThere() async throws {
    let cache = try test.cache { $0.writing = .behind(BlobCache.WriteBehind()) }
    let path = test.outside.path.appending("file")
    #expect(try await cache.export("key", to: path) == nil)
    #expect(!FileManager.default.fileExists(atPath: path.string))
    try await cache.store(payload(1000), for: "key")
    #expect(try await cache.export("key", to: path) == 1000)
    #expect(try Data(contentsOf: URL(filePath: path.string)) == payload(1000))
    let reader = try #require(try await cache.openReader(for: "key"))
    try await reader.export(10..<20, to: path)
    #expect(try Data(contentsOf: URL(filePath: path.string)) == payload(1000)[10..<20])
    try await cache.close()
    await expect(.closed) { try await reader.export(to: path) }
    await expect(.closed) { try await cache.export("key", to: path) }
    await expect(.closed) { try await cache.store(contentsOf: path, for: "key") }
  }
}

extension TestCache {
  /// Returns the number of bytes of unfinished records.
  fileprivate func temporaryBytes() -> Int64 { (try? otherStore().usage().temporaryBytes) ?? -1 }
}
