import BlobRecord
import BlobStore
import Foundation
import Locks
import Posix
import SystemPackage
import TestSupport
import Testing

#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#elseif canImport(Android)
  import Android
#endif

/// P10: a process without privileges learns from opening a file whether it owns it, and makes no further call. The
/// test uses a thread without privileges; the rest of the process keeps them.
@Suite(.enabled(if: FileSystemUser.isAvailable, "only the superuser can act as others")) struct OrdinaryUserTests {
  private static let stranger: UInt32 = 12_345

  private enum Sight: Equatable {
    case payload(Data), nothing
    case error(String)
  }

  /// - Returns: For each key, the outcome of its load and the system calls.
  private func load(_ keys: [BlobKey], in cache: HostileCache) throws -> [(sight: Sight, calls: [SystemCall])] {
    let plan = FaultPlan()
    let store = try cache.makeStore(files: plan.files(accessTimeTellsOwner: true))
    let found = Bounded.run(seconds: 10, as: FileSystemUser.nobody) { () -> [(Sight, [SystemCall])] in
      // The first call opens the directory.
      _ = try? store.load("absent", touching: false)
      return keys.map { key in
        plan.forgetCalls()
        let sight: Sight
        do {
          sight = try store.load(key, touching: false).map { .payload($0.payload) } ?? .nothing
        } catch {
          sight = .error("\(error)")
        }
        // On tmpfs, the page of the key's generation is a hole, because the record was planted.
        return (sight, plan.calls.map(\.kind).filter { $0 != .findData })
      }
    }
    return try #require(found, "it hangs").map { (sight: $0.0, calls: $0.1) }
  }

  @Test func oneOfTheirOwnIsReadWithoutAskingWhose() throws {
    let cache = try HostileCache(user: FileSystemUser.nobody)
    let found = try load([HostileCache.goodKey], in: cache)
    #expect(found.map(\.sight) == [.payload(HostileCache.goodPayload)])
    #expect(found.map(\.calls) == [[.openBeneath, .read, .close]])
  }

  /// A valid record that another user has planted under the key's name is ignored.
  @Test func anothersIsNotFoundAndFromThenOnAllAreAskedFor() throws {
    let cache = try HostileCache(user: FileSystemUser.nobody)
    try cache.makeStore().store(Data("planted".utf8), for: HostileCache.oddKey)
    let planted = cache.path(HostileCache.oddPath)
    try cache.require(planted.withPlatformString { chown($0, Self.stranger, .max) }, "chown")
    try cache.require(planted.withPlatformString { chmod($0, 0o644) }, "chmod")
    try cache.require(
      planted.removingLastComponent().withPlatformString { chown($0, FileSystemUser.nobody, .max) }, "chown")
    let found = try load([HostileCache.oddKey, HostileCache.goodKey], in: cache)
    #expect(found.map(\.sight) == [.nothing, .payload(HostileCache.goodPayload)])
    #expect(found.map { $0.calls.contains(.status) } == [true, true])
  }
}
