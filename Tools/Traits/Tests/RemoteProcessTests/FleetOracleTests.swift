import Testing

/// The oracle detects violations, and accepts permitted histories.
@Suite struct FleetOracleTests {
  typealias Operation = FleetHistory.Operation

  /// Returns a history of sequential operations on one key.
  private func history(
    _ operations: [(Operation.Kind, node: Int)], restarts: [FleetHistory.Span] = []
  )
    -> FleetHistory.Record
  {
    FleetHistory.Record(
      operations: operations.enumerated().map { index, operation in
        Operation(kind: operation.0, node: operation.node, key: 0, start: 10 * index, end: 10 * index + 5)
      }, restarts: restarts)
  }

  private func violations(
    _ record: FleetHistory.Record, writesThrough: Bool = true, isTroubled: Bool = false, last: Operation.Kind? = nil
  ) -> [String] {
    let gets = last.map { [Operation(kind: $0, node: 9, key: 0, start: 1000, end: 1001)] } ?? []
    return FleetOracle(record, .init(writesThrough: writesThrough, isTroubled: isTroubled)).violations(last: gets)
  }

  @Test(arguments: [
    // An acknowledged store is lost, or an older blob is returned instead.
    ([(Operation.Kind.put(1), 0), (.get(nil), 0)], "is lost"),
    ([(.put(1), 0), (.put(2), 0), (.get(1), 0)], "it is older"),
    ([(.put(1), 1), (.put(2), 0), (.get(1), 0)], "it is older"),
    // A removed blob is returned.
    ([(.put(1), 0), (.remove, 0), (.get(1), 0)], "it was removed"),
    // A copy is replaced or missing without a change at its node.
    ([(.put(1), 1), (.get(1), 0), (.put(2), 1), (.get(2), 0)], "found another"),
    ([(.put(1), 1), (.get(1), 0), (.remove, 1), (.get(nil), 0)], "found another"),
    ([(.put(1), 0), (.get(7), 0)], "never put"),
  ])
  func aMistakeIsFound(operations: [(Operation.Kind, Int)], reason: String) throws {
    for isTroubled in [false, true] where !isTroubled || reason != "it was removed" {
      let found = violations(history(operations.map { ($0.0, node: $0.1) }), isTroubled: isTroubled)
      #expect(found.count == 1)
      #expect(found.first?.contains(reason) == true, "\(found)")
    }
  }

  @Test func whatIsThereIsShared() {
    let record = history([(.put(1), node: 0), (.get(nil), node: 1)])
    #expect(violations(record).first?.contains("not shared") == true)
    #expect(violations(record, writesThrough: false).isEmpty)
    #expect(violations(record, isTroubled: true).isEmpty)
    // A node may remember an absence for some time. A removal may arrive after the put.
    #expect(violations(history([(.get(nil), node: 1), (.put(1), node: 0), (.get(nil), node: 1)])).isEmpty)
    #expect(violations(history([(.remove, node: 2), (.put(1), node: 0), (.get(nil), node: 1)])).isEmpty)
  }

  @Test func theLastChangeOfANodeArrives() {
    let two = history([(.put(1), node: 0), (.put(2), node: 0)])
    #expect(violations(two, writesThrough: false, last: .get(2)).isEmpty)
    #expect(violations(two, writesThrough: false, last: .get(1)).first?.contains("it is older") == true)
    #expect(violations(two, writesThrough: false, last: .get(nil)).first?.contains("is lost") == true)
    // If two machines write, the change that arrives last wins.
    let both = history([(.put(1), node: 0), (.put(2), node: 1)])
    #expect(violations(both, writesThrough: false, last: .get(1)).isEmpty)
    #expect(violations(both, writesThrough: true, last: .get(1)).first?.contains("it is older") == true)
    // The killed node may not have sent its put yet.
    let restart = FleetHistory.Span(node: 0, start: 20, end: 30)
    let killed = history([(.put(1), node: 0), (.put(2), node: 0)], restarts: [restart])
    for last in [nil, 1, 2] { #expect(violations(killed, writesThrough: false, last: .get(last)).isEmpty) }
    #expect(violations(killed, writesThrough: true, last: .get(1)).first?.contains("it is older") == true)
  }

  @Test func eachRequestIsAnswered() {
    let lost = FleetHistory.Span(node: 0, start: 3, end: 8)
    #expect(violations(.init(unanswered: [lost])).first?.contains("no answer") == true)
    #expect(violations(.init(restarts: [FleetHistory.Span(node: 0, start: 5, end: 6)], unanswered: [lost])).isEmpty)
  }

  @Test func whatOverlapsMayComeInAnyOrder() {
    let put = { (number: Int) in Operation(kind: .put(number), node: 0, key: 0, start: number, end: 10) }
    for found in [1, 2] {
      let get = Operation(kind: .get(found), node: 0, key: 0, start: 20, end: 30)
      #expect(violations(.init(operations: [put(1), put(2), get])).isEmpty)
    }
    let cut = Operation(kind: .remove, node: 0, key: 0, start: 12, end: .max)
    for found in [nil, 1] {
      let get = Operation(kind: .get(found), node: 0, key: 0, start: 20, end: 30)
      #expect(violations(.init(operations: [put(1), cut, get])).isEmpty)
    }
  }
}
