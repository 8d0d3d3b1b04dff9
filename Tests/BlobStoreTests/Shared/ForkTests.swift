#if !os(iOS)
  import BlobRecord
  import BlobStore
  import Foundation
  import Posix
  import TestSupport
  import Testing

  /// Spec/Guarantees.md, 2: forked children. Each test forks in its own process, because a fork of this process would
  /// inherit the locks of its other threads without the threads.
  @Suite struct ForkTests {
    @Test(.timeLimit(.minutes(30))) func aStoreFromBeforeTheForkAnswersWithAnError() async {
      await #expect(processExitsWith: .success) {
        let cache = try Cache()
        let store = try cache.store()
        try store.store(payload(10), for: "key", locks: .one)
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
        // The child's attempts have not changed anything.
        #expect(try store.load("key")?.payload == payload(10))
        #expect(try store.unlock("key") == .done)
      }
    }

    @Test(.timeLimit(.minutes(30))) func aStoreOfTheChildsOwnWorks() async {
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

    /// The child has its own session and fills its own chunks.
    @Test(.timeLimit(.minutes(30))) func packedRecordsOfParentAndChildAreKeptApart() async {
      await #expect(processExitsWith: .success) {
        let cache = try Cache()
        let store = try cache.store { $0.packing = .upTo(1000) }
        try store.store(payload(10), for: "key", locks: .one)
        let failures = try inForkedChild {
          let own = try cache.store { $0.packing = .upTo(1000) }
          let operations: [() throws -> Void] = [
            { try store.store(payload(5), for: "key") }, { try store.remove("key") }, { _ = try store.load("key") },
          ]
          var failures = operations.count { !throwsForkedChild($0) }
          for number in 0..<50 { try own.store(payload(20 + number), for: BlobKey("child \(number)")) }
          try own.lock("key")
          if try own.load("key")?.payload != payload(10) { failures += 1 }
          return failures
        }
        #expect(failures == 0)
        for number in 0..<50 { try store.store(payload(30 + number), for: BlobKey("parent \(number)")) }
        for number in 0..<50 {
          #expect(try store.load(BlobKey("child \(number)"))?.payload == payload(20 + number))
          #expect(try store.load(BlobKey("parent \(number)"))?.payload == payload(30 + number))
        }
        #expect(try store.header(for: "key")?.refCount == 2)
        #expect(try store.records().allSatisfy { $0.packed != nil })
      }
    }

    /// The locks of a dead process are released, even if a child of it is still alive.
    @Test(.timeLimit(.minutes(30))) func aChildDoesNotHoldTheStripeOfItsDeadParent() async {
      await #expect(processExitsWith: .success) {
        let cache = try Cache()
        let store = try cache.store()
        try store.store(payload(10), for: "key")
        let grandchild = try Lifeline()
        // The process dies while it holds the key and after it has forked a child.
        let status = try inForkedChild {
          try cache.store().withExclusiveAccess(to: "key") { _ in
            try grandchild.begin()
            _exit(7)
          }
          return 1
        }
        #expect(status == 7)
        // An answer shows that the grandchild has released the descriptors shared with its parent.
        #expect(try grandchild.isAlive())
        #expect(try store.lock("key") == .done)
      }
    }

    @Test(.timeLimit(.minutes(30))) func aChildDoesNotHoldTheCollectorsLockOfItsDeadParent() async {
      await #expect(processExitsWith: .success) {
        let cache = try Cache()
        let store = try cache.store()
        try store.store(payload(10), for: "key", ttl: .seconds(1))
        cache.clock.advance(by: 100)
        let grandchild = try Lifeline()
        let status = try inForkedChild {
          let files = Files { call, location in
            if call == .unlink || call == .rename { Self.die(after: grandchild) }
            return nil
          }
          try cache.store(files: files).collect()
          return 1
        }
        #expect(status == 7)
        // An answer shows that the grandchild has released the descriptors shared with its parent.
        #expect(try grandchild.isAlive())
        #expect(try store.collect().expired == 1)
      }
    }

    /// The temporary file is treated as one of a dead writer.
    @Test(.timeLimit(.minutes(30))) func aChildDoesNotHoldTheTemporaryFileOfItsDeadParent() async {
      await #expect(processExitsWith: .success) {
        let cache = try Cache()
        let store = try cache.store()
        try store.store(payload(10), for: "key")
        let grandchild = try Lifeline()
        let status = try inForkedChild {
          let files = Files { call, location in
            if call == .openUnnamed { return .fail(.notSupported) }
            if call == .write { Self.die(after: grandchild) }
            return nil
          }
          try cache.store(files: files) { $0.recycling = .off }.store(payload(20), for: "key")
          return 1
        }
        #expect(status == 7)
        // An answer shows that the grandchild has released the descriptors shared with its parent.
        #expect(try grandchild.isAlive())
        #expect(try store.usage().temporaryFiles == 1)
        #expect(try store.collect().temporary == 1)
      }
    }

    /// A child reserves the numbers of released descriptors, because an inherited store closes them in `deinit`.
    @Test(.timeLimit(.minutes(30))) func aStoreThatGoesInTheChildClosesNothingOfItsOwn() async {
      await #expect(processExitsWith: .success) {
        let cache = try Cache()
        var store: BlobStore? = try cache.store()
        try store?.store(payload(10), for: "key")
        let failures = try inForkedChild {
          let files = (0..<8).map { _ in open("/dev/zero", O_RDONLY) }
          store = nil
          return files.count { fcntl($0, F_GETFD) == -1 }
        }
        #expect(failures == 0)
        #expect(store != nil)
      }
    }

    /// Forks a child that stays alive, and exits the process as if killed by a signal.
    private static func die(after child: Lifeline) {
      // If the fork fails, `isAlive` returns `false`.
      try? child.begin()
      _exit(7)
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

  /// A process that lives until this one closes its end of a pipe or exits.
  private final class Lifeline: Sendable {
    private let toChild: [CInt]
    private let fromChild: [CInt]

    init() throws {
      var (first, second): ([CInt], [CInt]) = ([0, 0], [0, 0])
      try check(pipe(&first), "pipe")
      try check(pipe(&second), "pipe")
      (toChild, fromChild) = (first, second)
    }

    func begin() throws {
      let child = try forkProcess()
      guard child == 0 else {
        try check(child > 0 ? 0 : -1, "fork")
        return
      }
      close(toChild[1])
      var byte: UInt8 = 0
      while read(toChild[0], &byte, 1) == 1 { _ = write(fromChild[1], &byte, 1) }
      _exit(0)
    }

    func isAlive() throws -> Bool {
      // Otherwise this process would keep the pipe open, and the read would never end.
      close(fromChild[1])
      var byte: UInt8 = 7
      guard write(toChild[1], &byte, 1) == 1 else { return false }
      return read(fromChild[0], &byte, 1) == 1
    }
  }

  private func forkProcess() throws -> pid_t {
    // Swift marks `fork` as unavailable, because the child of a multithreaded process may do very little. The process
    // that forks here has no other active threads.
    typealias Fork = @convention(c) () -> pid_t
    return unsafeBitCast(try #require(dlsym(nil, "fork")), to: Fork.self)()
  }

  /// Runs a body in a forked child and waits for it.
  ///
  /// - Returns: The result of `body`, or 100 if it throws.
  func inForkedChild(_ body: () throws -> Int) throws -> Int32 {
    let child = try forkProcess()
    guard child != 0 else { _exit(Int32((try? body()) ?? 100)) }
    try check(child > 0 ? 0 : -1, "fork")
    var status: Int32 = 0
    try check(waitpid(child, &status, 0) == child ? 0 : -1, "waitpid")
    return status & 0x7f == 0 ? status >> 8 & 0xff : -1
  }
#endif
