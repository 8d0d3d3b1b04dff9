#if os(Linux)
  import BlobRecord
  import BlobStore
  import Foundation
  import Posix
  import Synchronization
  import SystemPackage
  import TestSupport
  import Testing

  #if canImport(Glibc)
    import Glibc
  #elseif canImport(Musl)
    import Musl
  #elseif canImport(Android)
    import Android
  #endif

  /// Spec/Semantics.md, B3: readers of files that are overwritten see the old blob, the new one, or nothing.
  @Suite struct RecyclingReaderTests {
    let bench: RecyclingBench
    private var cache: Cache { bench.cache }
    private var trace: CallTrace { bench.trace }

    init() throws { bench = try RecyclingBench() }

    /// B3, P1: before each call of a store, a load returns the old or the new blob without waiting. Loads of the key
    /// whose file is overwritten return nothing.
    @Test(arguments: [true, false]) func loadBeforeAnyCallSeesOldOrNew(replaces: Bool) throws {
      let store = try bench.store()
      let reader = try cache.store()
      var call = 0
      var isDone = false
      while !isDone {
        _ = try bench.warm(store, 1000, key: RecyclingBench.dead)
        try store.store(payload(800, 5), for: "key")
        _ = try bench.warm(store, 1000, key: RecyclingBench.dead)
        if !replaces { _ = try store.remove("key") }
        let count = Counter()
        let old: Data? = replaces ? payload(800, 5) : nil
        let number = call
        trace.onCall { _, _ in
          guard count.next() == number + 1 else { return nil }
          #expect(throws: Never.self) {
            let loaded = try reader.load("key", touching: false)?.payload
            #expect(loaded == old || loaded == payload(900, 6))
            #expect(try reader.load(RecyclingBench.dead, touching: false) == nil)
          }
          return nil
        }
        try store.store(payload(900, 6), for: "key")
        trace.onCall(nil)
        isDone = count.value < number + 1
        call += 1
        #expect(try reader.load("key")?.payload == payload(900, 6))
      }
      #expect(call > 8)
    }

    /// P9: a store that opens a file of the bin while another store publishes it holds no lease on the record,
    /// however long it is delayed before it tries to lock the file.
    @Test(.timeLimit(.minutes(30))) func heldUpStoreHasNoLeaseOnARecord() throws {
      let (slowTrace, trace) = (CallTrace(), trace)
      let (slow, store, reader) = try (cache.store(files: slowTrace.files), bench.store(), cache.store())
      // From here on, the stores know the control file.
      for store in [slow, store] { try store.store(payload(50_000), for: "other") }
      _ = try bench.warm(slow)
      let (isThere, mayGoOn, isDone) = (Gate(), Gate(), Gate())
      let isHeld = Once()
      slowTrace.onCall { call, path in
        if path.string.contains("/.recycled/"), call == .lock, isHeld.isFirst() {
          isThere.open()
          mayGoOn.wait()
        } else if call != .close, path.string.contains("/.recycled/") {
          #expect(throws: Never.self) { _ = try reader.load("key", touching: false) }
        }
        return nil
      }
      trace.onCall { call, _ in
        guard call == .renameNoReplace else { return nil }
        trace.onCall(nil)
        Thread {
          #expect(throws: Never.self) { try slow.store(payload(900, 4), for: "key2") }
          isDone.open()
        }.start()
        #expect(isThere.wait())
        return nil
      }
      do {
        defer { mayGoOn.open() }
        try store.store(payload(900, 3), for: "key")
      }
      #expect(isDone.wait())
      #expect(try reader.load("key")?.payload == payload(900, 3))
      #expect(try reader.load("key2")?.payload == payload(900, 4))
    }

    /// P1, P2, P9: readers of one process use separate descriptors while files of few keys are overwritten.
    @Test(.timeLimit(.minutes(30))) func readersNeverSeeAMix() throws {
      let stores = try [cache.store(), cache.store()]
      let keys = (0..<3).map { BlobKey("key\($0)") }
      let group = DispatchGroup()
      for index in 0..<4 {
        group.enter()
        Thread {
          defer { group.leave() }
          let store = stores[index % 2]
          for round in 0..<1500 {
            let key = keys[(round + index) % keys.count]
            #expect(throws: Never.self) {
              if index < 2 {
                let byte = UInt8(truncatingIfNeeded: round &* 2 &+ index)
                if round % 7 == 6 { _ = try store.remove(key) }
                try store.store(Data(key.string.utf8) + Data(repeating: byte, count: 2000 + round % 1000), for: key)
              } else if let blob = try store.load(key, touching: false) {
                #expect(blob.payload.starts(with: key.string.utf8))
                #expect(Set(blob.payload.dropFirst(key.string.utf8.count)).count == 1)
              }
            }
          }
        }.start()
      }
      group.wait()
      #expect(try stores[0].verify().damagedFiles == 0)
    }

    /// B3: a process that only loads also checks the generations.
    @Test(arguments: [BlobStore.Recycling.automatic, .off]) func loaderSeesThatARecordChangesWhileItIsRead(
      recycling: BlobStore.Recycling
    ) throws {
      let writer = try cache.store { $0.recycling = recycling }
      for seed in 1...2 { try writer.store(payload(100, UInt64(seed)), for: "key") }
      let loader = try bench.store()
      let trace = trace
      trace.onCall { call, _ in
        guard call == .read else { return nil }
        trace.onCall(nil)
        #expect(throws: Never.self) { try writer.store(payload(100, 3), for: "key") }
        return nil
      }
      let loaded = try loader.load("key")?.payload
      trace.onCall(nil)
      #expect(loaded == payload(100, 3))
      #expect(trace.count(.map) == 1)
    }
  }

  /// A counter that starts at 1.
  private final class Counter: Sendable {
    private let count = Atomic(0)

    func next() -> Int { count.wrappingAdd(1, ordering: .relaxed).newValue }
    var value: Int { count.load(ordering: .relaxed) }
  }
#endif
