import BlobRecord
import BlobStore
import Foundation
import Locks
import Synchronization
import TestSupport
import Testing

/// Spec/Semantics.md, S10, K: many threads and few keys.
@Suite struct ThreadTests {
  static let threadCount = 8
  // The thread sanitizer makes the tests ten times as slow, so they perform fewer operations.
  #if THREAD_SANITIZER
    static let operationCount = 60
  #else
    static let operationCount = 600
  #endif

  /// Returns a payload that contains its key and a seed, from which the rest of its bytes can be checked.
  private static func describe(_ key: String, _ generator: inout SeededGenerator) -> Data {
    let seed = generator.next()
    let head = Data("\(key) \(seed)\n".utf8)
    return head + payload(Int(seed % 9000), seed)
  }

  private static func isWhole(_ data: Data, of key: String) -> Bool {
    guard let end = data.firstIndex(of: UInt8(ascii: "\n")) else { return false }
    let words = String(decoding: data[..<end], as: UTF8.self).split(separator: " ")
    guard words.count == 2, words[0] == key, let seed = UInt64(words[1]) else { return false }
    return Data(data[(end + 1)...]) == payload(Int(seed % 9000), seed)
  }

  /// Runs the body in every thread and waits for all of them.
  private func inThreads(_ body: @escaping @Sendable (Int) -> Void) {
    let group = DispatchGroup()
    for index in 0..<Self.threadCount {
      group.enter()
      let thread = Thread {
        body(index)
        group.leave()
      }
      thread.start()
    }
    group.wait()
  }

  /// Records of the `kept` keys are never removed, so each load must succeed and every lock must count. The other
  /// keys have no such restriction.
  @Test(.timeLimit(.minutes(30)), arguments: [true, false])
  func loadsAreWholeAndLocksAreCounted(separates: Bool) throws {
    let cache = try Cache()
    let store = try cache.store { $0.layout.separatesDirectories = separates }
    let kept = ["kept1", "kept2"]
    let loose = ["loose1", "loose2", "2"]
    let seed = SeededGenerator.announcedSeed(for: "threads", environment: ProcessInfo.processInfo.environment)
    var setup = SeededGenerator(seed: seed)
    for key in kept { try store.store(Self.describe(key, &setup), for: BlobKey(key)) }
    let locks = Lock<[String: Int]>([:])
    let loads = Atomic(0)
    inThreads { index in
      var generator = SeededGenerator(seed: seed &+ UInt64(index))
      for _ in 0..<Self.operationCount {
        do {
          if index == 0, Int.random(in: 0..<10, using: &generator) == 0 { cache.clock.advance(by: 1) }
          if Bool.random(using: &generator) {
            let key = kept[Int.random(in: 0..<kept.count, using: &generator)]
            switch Int.random(in: 0..<10, using: &generator) {
            case 0...1:
              #expect(try store.lock(BlobKey(key)) == .done)
              locks.withLock { $0[key, default: 0] += 1 }
            case 2:
              if try store.unlock(BlobKey(key)) == .done { locks.withLock { $0[key, default: 0] -= 1 } }
            case 3...4: try store.store(Self.describe(key, &generator), for: BlobKey(key), locks: .keep)
            case 5: #expect(try store.touch(BlobKey(key)) == .done)
            default:
              let blob = try store.load(BlobKey(key))
              #expect(blob.map { Self.isWhole($0.payload, of: key) } == true)
              loads.add(1, ordering: .relaxed)
            }
          } else {
            let key = loose[Int.random(in: 0..<loose.count, using: &generator)]
            switch Int.random(in: 0..<10, using: &generator) {
            case 0: try store.lock(BlobKey(key))
            case 1: try store.unlock(BlobKey(key))
            case 2: try store.remove(BlobKey(key))
            case 3...5:
              try store.store(
                Self.describe(key, &generator), for: BlobKey(key), locks: Bool.random(using: &generator) ? .one : .none)
            case 6: try store.touch(BlobKey(key))
            case 7: #expect(try store.usage().damagedFiles == 0)
            default:
              if let blob = try store.load(BlobKey(key)) { #expect(Self.isWhole(blob.payload, of: key)) }
            }
          }
        } catch {
          Issue.record(error)
        }
      }
    }
    #expect(loads.load(ordering: .relaxed) > Self.operationCount / 6)
    for key in kept {
      #expect(try store.header(for: BlobKey(key))?.refCount == UInt32(locks.withLock { $0[key] ?? 0 }))
    }
    #expect(try store.verify().damagedFiles == 0)
    #expect(try store.usage().temporaryFiles == 0)
    #expect(try store.usage().foreignFiles == 0)
  }

  /// S10: one thread replaces the blob and the others load it.
  @Test(.timeLimit(.minutes(30))) func replacedBlobIsNeverAbsent() throws {
    let cache = try Cache()
    let store = try cache.store()
    var setup = SeededGenerator(seed: 4)
    try store.store(Self.describe("key", &setup), for: "key")
    inThreads { index in
      var generator = SeededGenerator(seed: UInt64(index))
      for _ in 0..<Self.operationCount {
        #expect(throws: Never.self) {
          if index == 0 {
            try store.store(Self.describe("key", &generator), for: "key")
          } else {
            let blob = try store.load("key")
            #expect(blob.map { Self.isWhole($0.payload, of: "key") } == true)
          }
        }
      }
    }
  }

  /// C10, P6: collections remove subdirectories that concurrent stores need.
  @Test(.timeLimit(.minutes(30))) func storesAndCollectionsDoNotDisturbEachOther() throws {
    let cache = try Cache()
    let store = try cache.store()
    inThreads { index in
      for round in 0..<Self.operationCount / 4 {
        #expect(throws: Never.self) {
          switch index {
          case 0: _ = try? store.collect()  // `collectionRunning` is a valid outcome.
          case 1: _ = try store.usage()
          default:
            let key = BlobKey("\(index)\(round % 3)")
            try store.store(payload(9), for: key)
            #expect(try store.load(key)?.payload == payload(9))
            try store.remove(key)
          }
        }
      }
    }
    try store.collect()
    #expect(Set(try cache.outside.names(in: "cache")).subtracting([".recycled"]) == [".blobcache"])
  }
}
