import Linearizability
import Testing

@Suite struct CheckerTests {
  let checker = Checker(defaultTTL: 60)

  func operation(
    _ request: Operation.Request, _ response: Operation.Response, _ called: UInt64, _ returned: UInt64,
    at second: UInt32 = 100
  ) -> Operation {
    Operation(request, response, called: called, returned: returned, firstSecond: second, lastSecond: second)
  }

  func store(_ value: UInt64, ttl: UInt32 = 0, locked: Bool = false) -> Operation.Request {
    .store(value: value, ttl: ttl, locked: locked, keepingLocks: false)
  }

  func loaded(_ value: UInt64, refCount: UInt32 = 0, ttl: UInt32 = 0, at second: UInt32 = 100) -> Operation.Response {
    .loaded(value: value, Operation.Observation(refCount: refCount, ttl: ttl, updateTime: second))
  }

  let load = Operation.Request.load(touching: false)

  @Test func nothingIsLinearizable() {
    #expect(checker.firstViolation(in: []) == nil)
  }

  @Test func aLoadThatOverlapsAStoreMaySeeEitherValue() {
    for seen: UInt64 in [1, 2] {
      let history = [
        operation(store(1), .done, 1, 2), operation(store(2), .done, 3, 6), operation(load, loaded(seen), 4, 5),
      ]
      #expect(checker.firstViolation(in: history) == nil)
    }
  }

  @Test func aValueThatWasReplacedIsNotSeenAgain() {
    let history = [
      operation(store(1), .done, 1, 2), operation(store(2), .done, 3, 4), operation(load, loaded(1), 5, 6),
    ]
    #expect(checker.firstViolation(in: history)?.operation == history[2])
  }

  @Test func twoLoadsSeeTwoOverlappingStoresInOneOrder() {
    let stores = [operation(store(1), .done, 1, 10), operation(store(2), .done, 2, 9)]
    let newThenOld = [operation(load, loaded(1), 3, 4), operation(load, loaded(2), 5, 6)]
    #expect(checker.firstViolation(in: stores + newThenOld) == nil)
    let andBack = newThenOld + [operation(load, loaded(1), 7, 8)]
    #expect(checker.firstViolation(in: stores + andBack) != nil)
  }

  @Test func aValueIsNotSeenBeforeItsStoreIsCalled() {
    let history = [operation(load, loaded(1), 1, 2), operation(store(1), .done, 3, 4)]
    #expect(checker.firstViolation(in: history)?.operation == history[0])
  }

  @Test(arguments: [true, false], [true, false]) func aWipeTakesOnlyWhatItsScopeSays(wipesLocked: Bool, locked: Bool) {
    let history = [
      operation(store(1, locked: locked), .done, 1, 2),
      operation(.removeAll(locked: wipesLocked), .done, 3, 4), operation(load, .notFound, 5, 6),
    ]
    #expect((checker.firstViolation(in: history) == nil) == (wipesLocked == locked))
  }

  @Test func aKeyIsNeverAbsentWhileItIsReplaced() {
    let history = [
      operation(store(1), .done, 1, 2), operation(store(2), .done, 3, 6), operation(load, .notFound, 4, 5),
    ]
    #expect(checker.firstViolation(in: history) != nil)
  }

  @Test func aLostLockIsFound() {
    var history = [
      operation(store(1), .done, 1, 2), operation(.lock, .done, 3, 10), operation(.lock, .done, 4, 9),
    ]
    history.append(operation(load, loaded(1, refCount: 2), 11, 12))
    #expect(checker.firstViolation(in: history) == nil)
    history.append(operation(load, loaded(1, refCount: 1), 13, 14))
    #expect(checker.firstViolation(in: history)?.operation == history[4])
  }

  @Test(arguments: [UInt32(0), 1]) func anOperationThatNeverReturnedMayHaveTakenEffectOrNot(refCount: UInt32) {
    let history = [
      operation(store(1), .done, 1, 2), operation(.lock, .unknown, 3, 8),
      operation(load, loaded(1, refCount: refCount), 9, 10), operation(load, loaded(1, refCount: 1 - refCount), 11, 12),
    ]
    #expect(checker.firstViolation(in: Array(history.prefix(3))) == nil)
    #expect(checker.firstViolation(in: history) != nil)
  }

  @Test func anOperationThatNeverReturnedMayComeAfterOneThatWasCalledLater() {
    let history = [
      operation(.lock, .unknown, 1, 5), operation(store(1), .done, 2, 9),
      operation(load, loaded(1, refCount: 1), 10, 11),
    ]
    #expect(checker.firstViolation(in: history) == nil)
  }

  @Test func storingSetsTheLocksUnlessTheyAreKept() {
    let before = [operation(store(1, locked: true), .done, 1, 2), operation(.lock, .done, 3, 4)]
    let keeping = Operation.Request.store(value: 2, ttl: 0, locked: false, keepingLocks: true)
    #expect(
      checker.firstViolation(
        in: before + [operation(keeping, .done, 5, 6), operation(load, loaded(2, refCount: 2), 7, 8)]) == nil)
    #expect(
      checker.firstViolation(
        in: before + [operation(store(2), .done, 5, 6), operation(load, loaded(2, refCount: 0), 7, 8)]) == nil)
    #expect(
      checker.firstViolation(
        in: before + [operation(store(2), .done, 5, 6), operation(load, loaded(2, refCount: 2), 7, 8)]) != nil)
  }

  @Test func aRecordIsFoundUntilItsTimeIsOverAndNotAfter() {
    let stored = operation(store(1, ttl: 5), .done, 1, 2)
    let found = loaded(1, ttl: 5)
    #expect(checker.firstViolation(in: [stored, operation(load, found, 3, 4, at: 105)]) == nil)
    #expect(checker.firstViolation(in: [stored, operation(load, .notFound, 3, 4, at: 106)]) == nil)
    #expect(checker.firstViolation(in: [stored, operation(load, found, 3, 4, at: 106)]) != nil)
    #expect(checker.firstViolation(in: [stored, operation(load, .notFound, 3, 4, at: 105)]) != nil)
  }

  @Test func betweenTwoSecondsARecordIsFoundOrNot() {
    let stored = operation(store(1, ttl: 5), .done, 1, 2)
    for response in [loaded(1, ttl: 5), .notFound] {
      var look = operation(load, response, 3, 4, at: 105)
      look.lastSecond = 106
      #expect(checker.firstViolation(in: [stored, look]) == nil)
    }
  }

  @Test func aLockKeepsARecordPastItsTime() {
    let history = [
      operation(store(1, ttl: 5, locked: true), .done, 1, 2),
      operation(.collect(evicting: false), .done, 3, 4, at: 200),
      operation(load, loaded(1, refCount: 1, ttl: 5), 5, 6, at: 200),
    ]
    #expect(checker.firstViolation(in: history) == nil)
    let collected = history.dropLast() + [operation(.remove, .notFound, 5, 6, at: 200)]
    #expect(checker.firstViolation(in: Array(collected)) != nil)
  }

  @Test func aCollectionMayRemoveWhatHasExpired() {
    let stored = operation(store(1, ttl: 5), .done, 1, 2)
    for response in [Operation.Response.done, .notFound] {
      let history = [
        stored, operation(.collect(evicting: false), .done, 3, 4, at: 200), operation(.remove, response, 5, 6, at: 200),
      ]
      #expect(checker.firstViolation(in: history) == nil)
    }
    let without = [stored, operation(.remove, .notFound, 5, 6, at: 200)]
    #expect(checker.firstViolation(in: without) != nil)
  }

  /// A collection to a limit is checked as two operations on one key.
  @Test func aCollectionRemovesAKeyOnce() {
    let history = [
      operation(store(1, ttl: 5), .done, 1, 2), operation(.collect(evicting: true), .done, 3, 20, at: 200),
      operation(.remove, .notFound, 5, 6, at: 200), operation(store(2), .done, 7, 8, at: 200),
      operation(.remove, .notFound, 9, 10, at: 200),
    ]
    #expect(checker.firstViolation(in: history)?.operation == history[4])
    let expiring = operation(.collect(evicting: false), .done, 3, 20, at: 200)
    #expect(checker.firstViolation(in: history + [expiring]) == nil)
  }

  /// A walk over packs may find a key again in each chunk that it is stored in during the walk, but not after its end.
  @Test(arguments: [UInt64(8), 20]) func aWipeThatRecursRemovesAKeyAgainAndAgain(end: UInt64) {
    var wipe = operation(.removeAll(locked: false), .done, 3, end)
    wipe.recurs = true
    let history = [
      operation(store(1), .done, 1, 2), wipe, operation(.remove, .notFound, 4, 5), operation(store(2), .done, 6, 7),
      operation(.remove, .notFound, 9, 10), operation(store(3), .done, 11, 12), operation(load, .notFound, 13, 14),
    ]
    #expect(checker.firstViolation(in: history)?.operation == (end == 8 ? history[6] : nil))
  }

  @Test func anEvictionMayRemoveWhatIsNotLocked() {
    let evict = operation(.collect(evicting: true), .done, 3, 4)
    for locked in [false, true] {
      let history = [
        operation(store(1, locked: locked), .done, 1, 2), evict, operation(load, .notFound, 5, 6),
      ]
      #expect((checker.firstViolation(in: history) == nil) == !locked)
    }
  }

  @Test func aTouchingLoadMayProlongWhatAnOverlappingStoreLeaves() {
    var touching = operation(.load(touching: true), loaded(1), 3, 8, at: 110)
    touching.firstSecond = 100
    var slow = operation(store(2), .done, 4, 5, at: 101)
    slow.lastSecond = 101
    let history = [
      operation(store(1), .done, 1, 2), touching, slow, operation(load, loaded(2, at: 110), 9, 10, at: 110),
    ]
    #expect(checker.firstViolation(in: history) == nil)
  }

  @Test func memoryMustNotAnswerWithWhatWasReplaced() {
    let history = [
      operation(store(1), .done, 1, 2), operation(.lock, .done, 3, 4),
      operation(load, .loadedFromMemory(value: 1), 5, 6), operation(store(2), .done, 7, 8),
      operation(load, .loadedFromMemory(value: 1), 9, 10),
    ]
    #expect(checker.firstViolation(in: Array(history.prefix(4))) == nil)
    #expect(checker.firstViolation(in: history)?.operation == history[4])
  }

  @Test func moreOrdersThanTheLimitAreUndecidedAndSaidToBe() {
    let limited = Checker(defaultTTL: 60, possibilityLimit: 50)
    let history = (1...8).map { operation(store(UInt64($0)), .done, UInt64($0), 100) }
    #expect(limited.firstViolation(in: history)?.isUndecided == true)
    #expect(checker.firstViolation(in: history) == nil)
  }
}
