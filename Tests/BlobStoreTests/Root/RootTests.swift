import BlobRecord
import BlobStore
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// Spec/Semantics.md, P: a root that is missing, inaccessible or not a directory.
@Suite struct RootTests {
  let cache: Cache

  init() throws { cache = try Cache() }

  /// P1.
  @Test func absentRootHoldsNothingAndIsMadeByTheFirstStore() throws {
    let cache = try Cache("some/where/cache")
    let store = try cache.store()
    #expect(try store.load("key") == nil)
    #expect(try store.load(prefix: "k") { $0.first } == nil)
    #expect(try store.contains("key") == false)
    #expect(try store.touch("key") == .notFound)
    #expect(try store.lock("key") == .notFound)
    #expect(try store.unlock("key") == .notFound)
    #expect(try store.remove("key") == .notFound)
    #expect(try store.removeAll(.all) == store.removeAll(.locked))
    #expect(try store.usage() == BlobStore.Usage())
    #expect(try store.verify() == BlobStore.VerificationReport())
    #expect(Array(try store.records()).isEmpty)
    #expect(try store.collect().examined == 0)
    #expect(try cache.outside.names() == [])
    try store.store(payload(5), for: "key")
    #expect(try cache.state("")?.permissions == 0o700)
    #expect(try cache.state("ke")?.permissions == 0o700)
    #expect(try cache.state("ke/key")?.permissions == 0o600)
    #expect(try store.load("key")?.payload == payload(5))
  }

  /// P2.
  @Test func absentRootIsAnErrorWhereItIsNotToBeMade() throws {
    let store = try cache.store { $0.access.createsDirectory = false }
    let operations: [() throws -> Void] = [
      { _ = try store.load("key") }, { _ = try store.load(prefix: "k") { $0.first } },
      { _ = try store.header(for: "key") },
      { _ = try store.contains("key") }, { try store.store(payload(5), for: "key") }, { try store.touch("key") },
      { try store.lock("key") }, { try store.unlock("key") }, { try store.remove("key") },
      { try store.removeAll(.all) },
      { try store.removeAll(.unlocked) }, { _ = try store.records() }, { _ = try store.usage() },
      { _ = try store.verify() }, { try store.collect() },
    ]
    for operation in operations {
      let error = expect(.directoryMissing) { try operation() }
      #expect(error?.path == cache.root)
    }
    #expect(try cache.outside.names() == [])
    try cache.makeDirectory("")
    for operation in operations { #expect(throws: Never.self) { try operation() } }
  }

  /// P5.
  @Test func worldWritableRootIsRefusedUnlessStickyOrAllowed() throws {
    try cache.makeDirectory("")
    try check(chmod(cache.path(""), 0o777), "chmod")
    let store = try cache.store()
    let operations: [() throws -> Void] = [
      { _ = try store.load("key") }, { try store.store(payload(5), for: "key") }, { try store.lock("key") },
      { try store.remove("key") }, { _ = try store.usage() }, { try store.collect() }, { try store.removeAll(.all) },
    ]
    for operation in operations {
      let error = expect(.worldWritableDirectory) { try operation() }
      #expect(error?.path == cache.root)
    }
    #expect(try cache.files() == [])
    try cache.store { $0.access.allowsWorldWritable = true }.store(payload(5), for: "key")
    expect(.worldWritableDirectory) { _ = try store.load("key") }
    try check(chmod(cache.path(""), 0o1777), "chmod")
    // Records stored while all users could write to the root are not trusted (P13, P14).
    #expect(try store.load("key") == nil)
    try store.store(payload(6), for: "key")
    #expect(try store.load("key")?.payload == payload(6))
  }

  /// P8.
  @Test func otherThanADirectoryIsATypedError() throws {
    try Data("x".utf8).write(to: URL(filePath: cache.root.string))
    let store = try cache.store()
    for operation in [
      { _ = try store.load("key") }, { try store.store(payload(5), for: "key") }, { try store.lock("key") },
      { try store.remove("key") }, { _ = try store.usage() }, { try store.collect() }, { try store.removeAll(.all) },
    ] as [() throws -> Void] {
      let error = expect(.fileSystem) { try operation() }
      #expect(error?.errno == .notDirectory)
      #expect(error?.path == cache.root)
      #expect(error?.systemCall == "open(2)")
    }
    #expect(try bytes(ofFile: cache.root.string) == [UInt8](ascii: "x"))
  }

  /// P8: symbolic links in the path and as the root are followed; a dangling link is an error of a store.
  @Test func rootMayBeALink() throws {
    let target = cache.outside.path.string + "/target"
    try check(symlink(target, cache.root.string), "symlink")
    let store = try cache.store()
    #expect(try store.load("key") == nil)
    let error = expect(.fileSystem) { try store.store(payload(5), for: "key") }
    #expect(error?.errno == .noSuchFileOrDirectory)
    try FileManager.default.createDirectory(atPath: target, withIntermediateDirectories: false)
    try check(chmod(target, 0o700), "chmod")
    try store.store(payload(5), for: "key")
    #expect(try fileState(target + "/ke/key") != nil)
  }

  /// P8: a root without read permission, and one without write permission.
  @Test(.enabled(if: geteuid() != 0, "permission bits do not bind the superuser"))
  func forbiddenRootIsATypedError() throws {
    let store = try cache.store()
    try store.store(payload(5), for: "key")
    try check(chmod(cache.path("ke"), 0o500), "chmod")
    let error = expect(.fileSystem) { try store.store(payload(6), for: "key") }
    #expect(error?.errno == .permissionDenied)
    cache.clock.advance(by: 1)
    #expect(try store.load("key")?.payload == payload(5))
    try check(chmod(cache.path("ke/key"), 0o400), "chmod")
    cache.clock.advance(by: 1)
    #expect(try store.load("key")?.payload == payload(5))
    expect(.fileSystem) { try store.lock("key") }
    try check(chmod(cache.path("ke/key"), 0), "chmod")
    #expect(expect(.fileSystem) { _ = try store.load("key") }?.errno == .permissionDenied)
    #expect(try store.records().map(\.state) == [.unreadable])
    try check(chmod(cache.path("ke"), 0), "chmod")
    #expect(try store.usage().unreadableFiles == 1)
    #expect(try store.collect().failed == 1)
    try check(chmod(cache.path("ke"), 0o700), "chmod")
    try check(chmod(cache.path(""), 0), "chmod")
    let other = try cache.store()
    #expect(expect(.fileSystem) { _ = try other.load("key") }?.errno == .permissionDenied)
    try check(chmod(cache.path(""), 0o700), "chmod")
  }

  /// P8: the failures are injected, so that the test also runs as superuser.
  @Test(arguments: [Errno.permissionDenied, .readOnlyFileSystem, .ioError]) func errorsCarryTheirCause(
    errno: Errno
  )
    throws
  {
    let trace = CallTrace()
    let store = try cache.store(files: trace.files)
    trace.onCall { call, _ in call == .openDirectory ? .fail(errno) : nil }
    for operation in [
      { _ = try store.load("key") }, { try store.store(payload(5), for: "key") }, { _ = try store.usage() },
    ] as [() throws -> Void] {
      let error = expect(.fileSystem) { try operation() }
      #expect(error?.errno == errno)
      #expect(error?.path == cache.root)
    }
  }

  /// P9.
  @Test func configurationsThatMakeNoSenseAreRefused() throws {
    let changes: [(inout BlobStore.Configuration) -> Void] = [
      { $0.limits.size = 0 }, { $0.limits.size = -1 }, { $0.limits.freeSpaceFloor = -1 }, { $0.limits.count = 0 },
      { $0.limits.evictionTarget = 0 }, { $0.limits.evictionTarget = 1.1 }, { $0.limits.evictionTarget = .nan },
      { $0.limits.payload = -1 },
    ]
    for change in changes { expect(.invalidConfiguration) { _ = try cache.store(change) } }
    expect(.invalidConfiguration) { _ = try BlobStore(directory: "") }
  }
}

extension [UInt8] {
  init(ascii text: String) { self = Array(text.utf8) }
}
