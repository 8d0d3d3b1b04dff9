import BlobRecord
import BlobStore
import Foundation
import SystemPackage
import TestSupport
import Testing

/// Runs every operation in a directory with every odd thing. Each operation returns or throws a typed error without a
/// crash or a hang, changes no foreign file and nothing outside the root, and leaves the rest of the cache usable.
@Suite struct HostileDirectoryTests {
  /// The limit of an operation in seconds. The goal is 50 ms, but a busy machine may miss it, which is only printed.
  static let limit = 5.0

  @Test func thereAreEnoughCases() {
    #expect(HostileThing.all.count * HostileOperation.allCases.count >= 400)
    #expect(Set(HostileThing.all.map(\.name)).count == HostileThing.all.count)
  }

  @Test(.timeLimit(.minutes(30)), arguments: HostileThing.all, HostileOperation.allCases)
  func oddThingsHarmNobody(thing: HostileThing, operation: HostileOperation) throws {
    if thing.needsPermissions, !FileSystemUser.isAvailable { return }
    if thing.needsRoot, !FileSystemUser.isAvailable { return }
    let user = thing.needsPermissions ? FileSystemUser.nobody : nil
    let cache = try HostileCache(user: user, packs: thing.packs)
    try thing.plant(cache)
    cache.addForeign(thing.foreign.map(cache.path))
    let outside = TreeSnapshot(of: [cache.outside])
    let foreign = TreeSnapshot(of: cache.foreign)

    let store = try cache.makeStore(policy: thing.policy, sizeLimit: operation == .collectToLimit ? 100 : nil)
    let start = ContinuousClock.now
    let found = Bounded.run(seconds: Self.limit, as: cache.user) { operation.run(on: store) }
    let duration = start.duration(to: .now)
    if duration > .milliseconds(50) { print("\(thing.name), \(operation): \(duration)") }

    let answer = try #require(found, "it hangs")
    check(answer, of: operation, with: thing)
    let outsideNow = TreeSnapshot(of: [cache.outside])
    #expect(outsideNow == outside, "outside: \(outside.difference(to: outsideNow))")
    let foreignNow = TreeSnapshot(of: cache.foreign)
    #expect(foreignNow == foreign, "foreign: \(foreign.difference(to: foreignNow))")
    try checkRest(of: cache, after: operation, with: thing)
    let foreignAtLast = TreeSnapshot(of: cache.foreign)
    #expect(foreignAtLast == foreign, "foreign, by the rest: \(foreign.difference(to: foreignAtLast))")
  }

  private func check(_ answer: HostileOperation.Answer, of operation: HostileOperation, with thing: HostileThing) {
    #expect(answer.payload != HostileCache.outsidePayload || thing.mayFindOutside, "a blob came from outside")
    guard let error = answer.error else { return }
    #expect(error.code != .internalInconsistency, "\(error)")
    #expect(!error.message.isEmpty && !error.operation.isEmpty && !error.description.isEmpty)
    if operation.isAboutAll, thing.rest == .everything || (thing.rest == .looking && !operation.isChange) {
      Issue.record("one odd thing keeps the whole directory from being looked at: \(error)")
    }
  }

  /// Checks that a valid record next to the odd thing works.
  private func checkRest(of cache: HostileCache, after operation: HostileOperation, with thing: HostileThing) throws {
    let store = try cache.makeStore()
    let rest = thing.rest
    let mayBeGone = operation.removesOthers || operation == .collectToLimit
    let failure = Bounded.run(seconds: Self.limit, as: cache.user) { () -> String? in
      do throws(BlobStoreError) {
        let payload = try store.load(HostileCache.goodKey)?.payload
        if payload != HostileCache.goodPayload, !(payload == nil && mayBeGone) { return "the good blob is gone" }
        let isPinned = try store.contains("pinned")
        if !isPinned, operation != .removeAll, operation != .removeLocked { return "a locked blob is gone" }
        _ = try store.usage()
        _ = try store.verify()
        if rest == .nothing { return "all was looked at" }
      } catch {
        if rest != .nothing { return "looking: \(error)" }
        if error.code == .internalInconsistency { return "\(error)" }
      }
      do throws(BlobStoreError) {
        try store.store(Data("new".utf8), for: "after")
        if rest != .everything { return "a change was made" }
        if try store.load("after")?.payload != Data("new".utf8) { return "a new blob is not found" }
        if try store.lock("after") != .done { return "a new blob cannot be locked" }
        if try store.remove("after") != .done { return "a new blob cannot be removed" }
        try store.collect()
      } catch {
        if rest == .everything { return "changing: \(error)" }
        if error.code == .internalInconsistency { return "\(error)" }
      }
      return nil
    }
    let finished = try #require(failure, "the rest hangs")
    #expect(finished == nil)
  }
}
