#if !os(iOS)
  import BlobRecord
  import BlobStore
  import Foundation
  import TestSupport
  import Testing

  /// Spec/Guarantees.md, 2: forked children. Each test forks a process of its own: a fork of this one would have the locks of
  /// its other threads, but not the threads.
  @Suite struct ForkTests {
    @Test(.timeLimit(.minutes(10))) func aStoreFromBeforeTheForkAnswersWithAnError() async {
      await #expect(processExitsWith: .success) {
        let cache = try Cache()
        let store = try cache.store()
        try store.store(payload(10), for: "key", locked: true)
        let failures = try inForkedChild {
          let operations: [() throws -> Void] = [
            { _ = try store.load("key") }, { _ = try store.contains("key") }, { _ = try store.header(for: "key") },
            { try store.store(payload(5), for: "key") }, { try store.touch("key") }, { try store.lock("key") },
            { try store.unlock("key") }, { try store.remove("key") }, { try store.removeAll(.all) },
            { _ = try store.records() }, { _ = try store.usage() }, { try store.collect() },
            { try store.trim(to: .byteCount(0)) }, { try store.withExclusiveAccess(to: "key") { _ in } },
          ]
          return operations.count { !throwsForkedChild($0) }
        }
        #expect(failures == 0)
        // What the child has tried concerns nobody else.
        #expect(try store.load("key")?.payload == payload(10))
        #expect(try store.unlock("key") == .done)
      }
    }

    @Test(.timeLimit(.minutes(10))) func aStoreOfTheChildsOwnWorks() async {
      await #expect(processExitsWith: .success) {
        let cache = try Cache()
        let store = try cache.store()
        try store.store(payload(10), for: "key")
        let failures = try inForkedChild {
          let own = try cache.store()
          try own.lock("key")
          try own.store(payload(20), for: "other")
          return try own.load("key")?.payload == payload(10) ? 0 : 1
        }
        #expect(failures == 0)
        #expect(try store.header(for: "key")?.refCount == 1)
        #expect(try store.load("other")?.payload == payload(20))
      }
    }
  }

  private func throwsForkedChild(_ operation: () throws -> Void) -> Bool {
    do {
      try operation()
      return false
    } catch {
      return (error as? BlobStoreError)?.code == .forkedChild
    }
  }

  /// Runs a body in a forked child, and waits for it.
  ///
  /// - Returns: what `body` returns; 100 if it throws.
  private func inForkedChild(_ body: () throws -> Int) throws -> Int32 {
    // Swift does not let `fork` be called by its name, because of what a child must not do; this one keeps to it as far as
    // the process that forks has no other threads at work.
    typealias Fork = @convention(c) () -> pid_t
    let fork = unsafeBitCast(try #require(dlsym(nil, "fork")), to: Fork.self)
    let child = fork()
    guard child != 0 else { _exit(Int32((try? body()) ?? 100)) }
    try check(child > 0 ? 0 : -1, "fork")
    var status: Int32 = 0
    try check(waitpid(child, &status, 0) == child ? 0 : -1, "waitpid")
    return status & 0x7f == 0 ? status >> 8 & 0xff : -1
  }
#endif
