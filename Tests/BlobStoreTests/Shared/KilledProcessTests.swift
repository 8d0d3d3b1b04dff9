#if !os(iOS)
  import BlobRecord
  import BlobStore
  import Foundation
  import Posix
  import Synchronization
  import SystemPackage
  import TestSupport
  import Testing

  /// Spec/Semantics.md, C15, and Spec/ControlFile.md, "Marks": collections after other processes were killed.
  @Suite struct KilledProcessTests {
    /// A process is killed after it has written a header, just after a collection, and before it updates the marks.
    @Test(.timeLimit(.minutes(30))) func aKilledChangeOfAHeaderHidesNothing() async {
      await #expect(processExitsWith: .success) {
        for change in HeaderChangeScene.allCases {
          let cache = try Cache()
          try change.prepare(cache)
          SystemClock.sleep(microseconds: 150_000)
          change.setClock(of: cache)
          let status = try inForkedChild {
            let files = Files { call, location in
              guard call == .write, location.path.string.hasSuffix("/key") else { return nil }
              do {
                try cache.store { $0.access.lockTimeout = .zero }.collect()
                try change.write(in: cache)
              } catch {
                _exit(8)
              }
              _exit(7)
            }
            try change.make(in: cache.store(files: files))
            return 1
          }
          #expect(status == 7)
          change.expire(in: cache)
          #expect(try cache.store().collect().expired == 1)
          #expect(try cache.files() == ["ke/kept"])
          // Later collections can mark the subdirectory again.
          SystemClock.sleep(microseconds: 150_000)
          try cache.store().collect()
          let trace = CallTrace()
          try cache.store(files: trace.files).collect()
          #expect(!trace.take().contains { $0.path.hasSuffix("/kept") })
        }
      }
    }

    /// The collection is killed at each of its system calls.
    @Test(.timeLimit(.minutes(30))) func aKilledCollectionHidesNothing() async {
      await #expect(processExitsWith: .success) {
        let caches = try (0..<150).map { _ in
          let cache = try Cache()
          let store = try cache.store()
          for (key, ttl) in [("key", 100), ("kept", 100_000), ("other", 100)] {
            try store.store(payload(10), for: BlobKey(key), ttl: .seconds(ttl))
          }
          return cache
        }
        SystemClock.sleep(microseconds: 150_000)
        var isWhole = false
        for (number, cache) in caches.enumerated() where !isWhole {
          // The next collection creates marks.
          try cache.store().collect()
          cache.clock.advance(by: 101)
          let status = try inForkedChild {
            let calls = Atomic(0)
            let files = Files { _, _ in
              if calls.add(1, ordering: .relaxed).newValue > number { _exit(7) }
              return nil
            }
            try cache.store(files: files) { $0.recycling = .off }.collect()
            return 1
          }
          isWhole = status == 1
          #expect(isWhole || status == 7)
          let store = try cache.store { $0.recycling = .off }
          try store.collect()
          #expect(try cache.files() == ["ke/kept"], "killed at call \(number)")
          #expect(try Set(cache.outside.names(in: "cache")) == [".blobcache", "ke"], "killed at call \(number)")
          var options = BlobStore.CollectionOptions()
          options.looksAtEverything = true
          try store.collect(options)
          #expect(try store.usageEstimate() == BlobStore.UsageEstimate(records: 1, bytes: 74))
          #expect(try store.lock("kept") == .done)
        }
        #expect(isWhole)
      }
    }
  }
#endif
