@testable import BlobCache
import Testing

@Suite struct LatestByKeyTests {
  private struct Change: PendingChange, Equatable {
    let name: String
    var byteCost = 10
  }

  private typealias Changes = LatestByKey<String, Change>

  private func put(
    _ name: String, _ byteCost: Int = 10, keepsPlace: Bool = false, for key: String, _ changes: inout Changes
  ) {
    changes.put(Change(name: name, byteCost: byteCost), for: key, keepsPlace: keepsPlace)
  }

  private func order(_ changes: inout Changes) -> [String] {
    var keys: [String] = []
    while let key = changes.next() {
      _ = changes.begin(key)
      keys.append(key)
    }
    return keys
  }

  @Test func changesBeginInTheOrderInWhichTheyCame() {
    var changes = Changes()
    put("1", for: "a", &changes)
    put("2", 0, for: "b", &changes)
    put("3", for: "c", &changes)
    #expect(changes.count == 3 && changes.freeCount == 1)
    #expect(order(&changes) == ["a", "b", "c"])
    #expect(!changes.hasPending && !changes.isEmpty)
  }

  @Test(arguments: [true, false]) func theLatestChangeReplacesTheOneBefore(keepsPlace: Bool) {
    var changes = Changes()
    put("1", for: "a", &changes)
    put("2", for: "b", &changes)
    put("3", 20, keepsPlace: keepsPlace, for: "a", &changes)
    #expect(changes.latest(of: "a")?.name == "3" && changes.pendingCost == 30)
    #expect(order(&changes) == (keepsPlace ? ["a", "b"] : ["b", "a"]))
  }

  /// Many later changes pass an early one that cannot begin. The next is then found among the keys that are left.
  @Test func anEarlyChangeMayStay() {
    var changes = Changes()
    put("1", for: "stays", &changes)
    for number in 0..<1000 {
      put("2", for: "\(number)", &changes)
      #expect(changes.next { $0 != "stays" } == "\(number)")
      #expect(changes.begin("\(number)") != nil)
    }
    #expect(changes.next { $0 != "stays" } == nil)
    put("3", for: "last", &changes)
    #expect(changes.next() == "stays" && changes.next { $0 != "stays" } == "last")
  }

  /// A change without bytes can supersede a change with bytes, and takes over its place in the order.
  @Test func aPlaceIsKeptByAnyChange() {
    var changes = Changes()
    put("1", for: "a", &changes)
    put("2", for: "b", &changes)
    put("3", 0, keepsPlace: true, for: "a", &changes)
    #expect(changes.pendingCost == 10 && changes.freeCount == 1)
    #expect(order(&changes) == ["a", "b"])
  }

  @Test func ofAKeyOneChangeIsInProgressAndOneWaits() {
    var changes = Changes()
    put("1", for: "a", &changes)
    #expect(changes.begin("a")?.name == "1")
    put("2", for: "a", &changes)
    put("3", for: "b", &changes)
    #expect(changes.latest(of: "a")?.name == "2" && changes.has("a"))
    #expect((changes.pendingCost, changes.inProgressCost) == (20, 10))
    #expect(changes.keys == ["a", "b"] && changes.pendingKeys.sorted() == ["a", "b"])
    // The next change of "a" is run after the change in progress and before changes that were added later.
    #expect(changes.next() == "b")
    #expect(changes.end("a")?.name == "1" && changes.end("a") == nil)
    #expect(changes.inProgressCost == 0)
    #expect(order(&changes) == ["a", "b"])
  }

  @Test func aChangeThatMayNotBeginIsPassedOver() {
    var changes = Changes()
    put("1", for: "a", &changes)
    put("2", for: "b", &changes)
    #expect(changes.next { $0 != "a" } == "b")
    #expect(changes.next { _ in false } == nil)
  }

  @Test func theOldestOfEachSortIsTakenOut() {
    var changes = Changes()
    put("1", 0, for: "a", &changes)
    put("2", for: "b", &changes)
    put("3", for: "c", &changes)
    #expect(changes.oldest(isCostly: true) == "b" && changes.oldest(isCostly: false) == "a")
    #expect(changes.take("b")?.name == "2" && changes.take("b") == nil)
    #expect(changes.pendingCost == 10)
    #expect(changes.oldest(isCostly: true) == "c")
    #expect(changes.begin("b") == nil)
  }
}
