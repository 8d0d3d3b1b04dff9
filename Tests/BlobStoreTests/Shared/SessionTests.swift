import BlobRecord
import BlobStore
import Foundation
import Posix
import TestSupport
import Testing

/// Spec/ControlFile.md, "Sessions" and "Stripes": holding a stripe in shared memory, and taking it over.
@Suite struct SessionTests: BetweenCalls {
  let cache: Cache
  let trace = CallTrace()

  init() throws {
    cache = try Cache()
    try cache.store().store(payload(5), for: "key", ttl: .seconds(1000))
  }

  private func impatient() throws -> BlobStore { try cache.store { $0.access.lockTimeout = .zero } }

  /// Waits for up to a minute, because another test's child keeps files open until it executes its program.
  private func becomesFree(_ bytes: Range<Int64>, _ file: borrowing OpenFile) throws -> Bool {
    let end = ContinuousClock.now + .seconds(60)
    while try !file.tryLock(bytes: bytes) {
      guard .now < end else { return false }
      Thread.sleep(forTimeInterval: 0.001)
    }
    return true
  }

  private func control() throws -> OpenFile {
    guard let root = try Directory(at: cache.root, files: Files()),
      case .regular(let file, _) = try root.openFile(".blobcache", for: .readWrite)
    else { throw CocoaError(.fileNoSuchFile) }
    return file
  }

  /// The holder of the stripe has died without freeing it.
  @Test func aStripeIsTakenOverFromTheDead() throws {
    do {
      let locks = try HeldLocks(in: cache)
      #expect(try locks.take(ControlLayout.stripeBytes))
      expect(.busy) { try impatient().lock("key") }
      withExtendedLifetime(locks) {}
    }
    #expect(try cache.store().lock("key") == .done)
    #expect(try cache.store().unlock("key") == .done)
  }

  /// Another process has reused the slot of the dead one.
  @Test func aTokenOfATakenSlotIsDead() throws {
    let token: UInt64
    do {
      let locks = try HeldLocks(in: cache)
      #expect(try locks.take(ControlLayout.stripeBytes))
      token = locks.token
    }
    var successor = try HeldLocks(in: cache)
    while successor.token % 1024 != token % 1024 { successor = try HeldLocks(in: cache) }
    #expect(successor.token != token)
    #expect(try impatient().lock("key") == .done)
    withExtendedLifetime(successor) {}
  }

  @Test func theHolderIsNamed() throws {
    let locks = try HeldLocks(in: cache)
    #expect(try locks.take(ControlLayout.stripeBytes))
    let error = expect(.busy) { try impatient().lock("key") }
    #expect(error?.runningProcess == ProcessInfo.processInfo.processIdentifier)
    #expect(error?.message.contains("process \(ProcessInfo.processInfo.processIdentifier)") == true)
  }

  /// At most 1,024 processes can change a directory at the same time; any number can read it.
  @Test func withAllSessionsTakenNothingIsChanged() throws {
    let others = try control()
    let first = ControlLayout.sessionByte(0).lowerBound
    #expect(try others.tryLock(bytes: first..<first + Int64(ControlLayout.sessionCount)))
    let store = try impatient()
    let error = expect(.busy) { try store.lock("key") }
    #expect(error?.message.contains("1024 processes") == true)
    #expect(try store.load("key")?.payload == payload(5))
    try others.unlock(bytes: ControlLayout.sessionByte(1023))
    #expect(try store.lock("key") == .done)
  }

  /// A store into a pack waits for a session, too; packed records are read without one.
  @Test func withAllSessionsTakenNothingIsPacked() throws {
    func packing() throws -> BlobStore {
      try cache.store {
        $0.packing = .upTo(1000)
        $0.access.lockTimeout = .zero
      }
    }
    try packing().store(payload(30), for: "packed")
    let others = try control()
    let first = ControlLayout.sessionByte(0).lowerBound
    let all = first..<first + Int64(ControlLayout.sessionCount)
    #expect(try becomesFree(all, others))
    let store = try packing()
    let error = expect(.busy) { try store.store(payload(40), for: "packed") }
    #expect(error?.message.contains("1024 processes") == true)
    expect(.busy) { try store.remove("packed") }
    #expect(try store.load("packed")?.payload == payload(30))
    #expect(try store.records().compactMap(\.key?.string).sorted() == ["key", "packed"])
    try others.unlock(bytes: ControlLayout.sessionByte(1023))
    try store.store(payload(40), for: "packed")
    #expect(try store.records().first { $0.key == "packed" }?.packed != nil)
    #expect(try store.load("packed")?.payload == payload(40))
  }

  /// A token is dead if its slot contains another token, although a living process has locked the slot's byte.
  @Test func aNumberThatIsUsedAgainSavesNoToken() throws {
    let locks = try HeldLocks(in: cache)
    #expect(try locks.take(ControlLayout.stripeBytes))
    let store = try impatient()
    expect(.busy) { try store.lock("key") }
    // The process of the old token has died, and another one has taken over its slot.
    let token = ControlLayout.newToken(for: ControlLayout.sessionNumber(of: locks.token))
    try control().write(
      unsafe [token].span.bytes,
      at: Int64(ControlLayout.sessionTokenOffset(ControlLayout.sessionNumber(of: locks.token))))
    #expect(try store.lock("key") == .done)
    withExtendedLifetime(locks) {}
  }

  /// Version 3 of the control file had a lock byte per stripe, which processes without shared memory still use.
  @Test func aProgramThatLocksBytesExcludesSessions() throws {
    let earlier = try control()
    #expect(try earlier.tryLock(bytes: ControlLayout.stripeByte(of: 77)))
    let store = try impatient()
    let error = expect(.busy) { try store.lock("key") }
    #expect(error?.message.contains("earlier version") == true)
    try earlier.unlock(bytes: ControlLayout.stripeByte(of: 77))
    #expect(try store.lock("key") == .done)
    // The bytes stay locked while the store exists.
    let isHad = try earlier.tryLock(bytes: ControlLayout.stripeByte(of: 77))
    #expect(!isHad)
    withExtendedLifetime(store) {}
  }

  /// Processes that open the file afterwards lock its bytes, so this one must notice the change.
  @Test func aControlFileThatIsOverwrittenBindsNobody() throws {
    let store = try cache.store()
    #expect(try store.lock("key") == .done)
    let control = try control()
    try control.write(unsafe [UInt8](repeating: 7, count: 16).span.bytes, at: 0)
    #expect(try store.lock("key") == .done)
    #expect(try cache.bytes(".blobcache").starts(with: Array("BLOBCTL\0".utf8)))
    #expect(try cache.store().header(for: "key")?.refCount == 2)
  }

  /// Another program overwrites the file after the check of its magic and before the word is taken.
  @Test func aControlFileThatIsOverwrittenAsAWordIsTakenBindsNobody() throws {
    let store = try tracedStore()
    let control = try control()
    before(.takeStripe) {
      try control.write(unsafe [UInt8](repeating: 7, count: 16).span.bytes, at: 0)
    }
    #expect(try store.lock("key") == .done)
    #expect(try cache.bytes(".blobcache").starts(with: Array("BLOBCTL\0".utf8)))
    #expect(try store.header(for: "key")?.refCount == 1)
  }

  /// The holder mapped the file before the damage and may be in the middle of a change.
  @Test func aDamagedControlFileStaysWhileAWordIsHeld() throws {
    let locks = try HeldLocks(in: cache)
    let stripe = BlobKey("another").stripe
    #expect(try locks.take(stripe))
    let damaged = [UInt8](repeating: 7, count: 16)
    try control().write(unsafe damaged.span.bytes, at: 0)
    let error = expect(.busy) { try impatient().lock("key") }
    #expect(error?.message.contains("before it was damaged") == true)
    #expect(try !cache.bytes(".blobcache").starts(with: Array("BLOBCTL\0".utf8)))
    try locks.giveBack(stripe)
    #expect(try impatient().lock("key") == .done)
    #expect(try cache.bytes(".blobcache").starts(with: Array("BLOBCTL\0".utf8)))
  }

  /// A word that is free or was left by a dead process does not prevent the replacement.
  @Test func aDamagedControlFileWithLeftoversIsReplaced() throws {
    do {
      let locks = try HeldLocks(in: cache)
      #expect(try locks.take(ControlLayout.stripeBytes))
      withExtendedLifetime(locks) {}
    }
    try control().write(unsafe [UInt8](repeating: 7, count: 16).span.bytes, at: 0)
    #expect(try cache.store().lock("key") == .done)
  }

  /// A restored backup contains the slots of an earlier time.
  @Test func aHolderWhoseSlotIsOverwrittenOpensTheFileAnew() throws {
    let store = try tracedStore()
    #expect(try store.lock("key") == .done)
    let token = ControlLayout.newToken(for: 0)
    try control().write(unsafe [token].span.bytes, at: Int64(ControlLayout.sessionTokenOffset(0)))
    let other = try impatient()
    let (trace, frees) = (trace, CallCount())
    trace.onCall { call, _ in
      guard call == .freeStripe else { return nil }
      frees.add(1)
      // The first call frees a stripe that was taken in vain.
      if frees.value == 2 { expect(.busy) { try other.lock("key") } }
      return nil
    }
    #expect(try store.lock("key") == .done)
    #expect(frees.value == 2)
    #expect(try other.lock("key") == .done)
    #expect(try store.header(for: "key")?.refCount == 3)
  }

  /// The process whose token is in the word holds the stripe.
  @Test func aWordOfAnotherIsNotFreed() throws {
    let store = try tracedStore()
    let locks = try HeldLocks(in: cache)
    let word = Int64(ControlLayout.stripeOffset(Int(BlobKey("key").stripe.lowerBound)))
    let control = control
    before(.freeStripe) {
      try control().write(unsafe [locks.token].span.bytes, at: word)
    }
    #expect(try store.lock("key") == .done)
    expect(.busy) { try impatient().lock("key") }
  }

  @Test func aSlotIsFreeAgainIfTheSessionCannotBegin() throws {
    let store = try tracedStore()
    let locks = CallCount()
    trace.onCall { call, path in
      guard call == .lockByte, path.string.hasSuffix(".blobcache") else { return nil }
      locks.add(1)
      return locks.value == 2 ? .fail(.ioError) : nil
    }
    #expect(throws: BlobStoreError.self) { try store.lock("key") }
    let others = try control()
    #expect(try others.tryLock(bytes: ControlLayout.sessionByte(0)))
    withExtendedLifetime(store) {}
  }

  @Test func aSessionEndsWithItsStore() throws {
    for _ in 0..<3 { try cache.store().lock("key") }
    let others = try control()
    #expect(try becomesFree(ControlLayout.sessionByte(0), others))
  }
}
