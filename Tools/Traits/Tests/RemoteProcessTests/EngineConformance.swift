import BlobCacheRemote
import Foundation
import Testing

/// The common behavior of all engines, against real servers.
@Suite(.timeLimit(.minutes(5))) struct EngineConformance {
  private let records: Records
  private let place = "conformance/\(UUID().uuidString)"

  init() throws { records = try Records() }

  private func name(_ part: String) -> RemoteName { RemoteName("\(place)/\(part)") }

  private func with(_ fixture: EngineFixture, _ body: (any RemoteEngine) async throws -> Void) async throws {
    let engine = try await fixture.make()
    do {
      try await body(engine)
    } catch {
      await engine.close()
      throw error
    }
    await engine.close()
  }

  private static func isUnsupported(_ body: () async throws -> Void) async -> Bool {
    do {
      try await body()
      return false
    } catch {
      return (error as? RemoteError)?.kind == .unsupported
    }
  }

  @Test(arguments: EngineFixture.available, [0, 1, 65_536])
  func aRecordComesBackAsItWent(_ fixture: EngineFixture, size: Int) async throws {
    try await with(fixture) { engine in
      let record = try records.inMemory(Records.bytes(size, seed: 1))
      try await engine.put(record, as: name("a"))
      #expect(try await engine.bytes(of: name("a")) == record.bytes)
      #expect(try await engine.head(name("a")) == record.head)
      try await engine.remove(name("a"))
    }
  }

  /// A record that is read from its file is uploaded and downloaded in pieces.
  @Test(arguments: EngineFixture.available) func aLargeRecordStreams(_ fixture: EngineFixture) async throws {
    try await with(fixture) { engine in
      guard try await engine.capabilities(under: name("look")).streams else { return }
      let record = try await records.inFile(Records.bytes(20_000_000, seed: 2))
      #expect(record.bytes == nil)
      try await engine.put(record, as: name("large"))
      let object = try #require(try await engine.get(name("large")))
      var (bytes, pieces) = (Data(), 0)
      for try await piece in object.pieces {
        bytes.append(piece)
        pieces += 1
      }
      #expect(try await bytes == record.collected())
      #expect(pieces > 1)
      #expect(try await engine.head(name("large")) == record.head)
      try await engine.remove(name("large"))
    }
  }

  @Test(arguments: EngineFixture.available) func whatIsNotThereIsAbsent(_ fixture: EngineFixture) async throws {
    try await with(fixture) { engine in
      #expect(try await engine.get(name("none")) == nil)
      #expect(try await engine.head(name("none")) == nil)
      try await engine.remove(name("none"))
    }
  }

  @Test(arguments: EngineFixture.available) func theLatestPutCounts(_ fixture: EngineFixture) async throws {
    try await with(fixture) { engine in
      for size in [3000, 5000, 1000] {
        let record = try records.inMemory(Records.bytes(size, seed: UInt64(size)))
        try await engine.put(record, as: name("again"))
        #expect(try await engine.bytes(of: name("again")) == record.bytes)
      }
      for _ in 0..<2 {
        try await engine.remove(name("again"))
        #expect(try await engine.get(name("again")) == nil)
      }
    }
  }

  private static let parts = [
    "plain-._~", "per%cent", "album%2F42", "a b", "ä", "e\u{301}", "\u{1F600}", "a+b&c=d", "'(quoted)'!*", "x;y,z:@$",
    "<&>\"", "...", String(repeating: "n", count: 255),
  ]

  @Test(arguments: EngineFixture.available) func namesAreExact(_ fixture: EngineFixture) async throws {
    try await with(fixture) { engine in
      let lists = try await engine.capabilities(under: name("look")).lists
      var written: [String: Data?] = [:]
      for (index, part) in Self.parts.enumerated() {
        let record = try records.inMemory(Records.bytes(100, seed: UInt64(index)))
        try await engine.put(record, as: name("names/\(part)"))
        written[name("names/\(part)").string] = record.bytes
      }
      for (name, bytes) in written { #expect(try await engine.bytes(of: RemoteName(name)) == bytes, "\(name)") }
      if lists {
        #expect(try await engine.names(name("names/")).sorted() == written.keys.sorted())
        #expect(try await engine.names(name("names/a b")) == [name("names/a b").string])
      } else {
        #expect(await Self.isUnsupported { _ = try await engine.list(name("names/"), page: nil) })
      }
      for name in written.keys { try await engine.remove(RemoteName(name)) }
      if lists { #expect(try await engine.names(name("names/")).isEmpty) }
    }
  }

  @Test(arguments: EngineFixture.available) func listsHavePages(_ fixture: EngineFixture) async throws {
    try await with(fixture) { engine in
      guard try await engine.capabilities(under: name("look")).lists else { return }
      let record = try records.inMemory(Data())
      let wanted = (0..<1010).map { name("many/\($0)") }
      try await inTurns(wanted) { try await engine.put(record, as: $0) }
      #expect(try await engine.names(name("many/")).sorted() == wanted.map(\.string).sorted())
      try await inTurns(wanted) { try await engine.remove($0) }
    }
  }

  /// Runs the body for all names, with at most 16 concurrent calls.
  private func inTurns(
    _ names: [RemoteName], _ body: @escaping @Sendable (RemoteName) async throws -> Void
  ) async throws {
    try await withThrowingTaskGroup(of: Void.self) { group in
      for (index, name) in names.enumerated() {
        if index >= 16 { try await group.next() }
        group.addTask { try await body(name) }
      }
      try await group.waitForAll()
    }
  }

  /// An engine still works after more cancelled downloads than it has connections.
  @Test(arguments: EngineFixture.available) func whatIsCancelledEnds(_ fixture: EngineFixture) async throws {
    try await with(fixture) { engine in
      guard try await engine.capabilities(under: name("look")).streams else { return }
      let record = try await records.inFile(Records.bytes(20_000_000, seed: 3))
      try await engine.put(record, as: name("cancelled"))
      for _ in 0..<40 {
        let (began, continuation) = AsyncStream.makeStream(of: Void.self)
        let reading = Task { [name = name("cancelled")] in
          defer { continuation.finish() }
          let object = try await engine.get(name)
          for try await _ in try #require(object).pieces {
            continuation.yield()
            // The task holds the body until it is cancelled.
            while !Task.isCancelled { await Task.yield() }
          }
        }
        for await _ in began { break }
        reading.cancel()
        await #expect(throws: (any Error).self) { try await reading.value }
      }
      #expect(try await engine.head(name("cancelled")) == record.head)
      try await engine.remove(name("cancelled"))
    }
  }

  @Test(arguments: EngineFixture.available) func manyTasksUseItAtOnce(_ fixture: EngineFixture) async throws {
    try await with(fixture) { engine in
      let written = try (0..<64).map { index in
        (
          name("task-\(index)"),
          try records.inMemory(Records.bytes(1000 + index, seed: UInt64(index)), key: BlobKey("\(index)"))
        )
      }
      try await withThrowingTaskGroup(of: Void.self) { group in
        for (name, record) in written {
          group.addTask {
            try await engine.put(record, as: name)
            #expect(try await engine.bytes(of: name) == record.bytes)
            try await engine.remove(name)
            #expect(try await engine.head(name) == nil)
          }
        }
        try await group.waitForAll()
      }
    }
  }

  /// A capability check leaves no objects, and its results are correct.
  @Test(arguments: EngineFixture.available) func aLookTellsWhatItCan(_ fixture: EngineFixture) async throws {
    try await with(fixture) { engine in
      let found = try await engine.capabilities(under: name("look"))
      if found.lists { #expect(try await engine.names(name("look/")).isEmpty) }
      #expect(found.leases == false || engine is any RemoteLeasing)
    }
  }

  @Test(arguments: EngineFixture.available) func oneOfManyGetsALease(_ fixture: EngineFixture) async throws {
    try await with(fixture) { engine in
      guard let engine = engine as? any RemoteLeasing, try await engine.capabilities(under: name("look")).leases else {
        return
      }
      let object = name("leased")
      // Concurrently, or one by one if the server checks and stores in two steps.
      let width = fixture.decidesRaces ? 32 : 1
      let holders = try await withThrowingTaskGroup(of: String?.self) { group in
        var holders: [String] = []
        for index in 0..<32 {
          if index >= width, let holder = try await group.next() ?? nil { holders.append(holder) }
          group.addTask {
            try await engine.acquireLease(object, as: "\(index)", for: .seconds(600)) ? "\(index)" : nil
          }
        }
        return try await group.reduce(into: holders) { if let holder = $1 { $0.append(holder) } }
      }
      let holder = try #require(holders.first)
      #expect(holders.count == 1)
      try await engine.releaseLease(object, as: "another")
      #expect(try await !engine.acquireLease(object, as: "another", for: .seconds(600)))
      // The holder can renew its lease.
      #expect(try await engine.acquireLease(object, as: holder, for: .seconds(600)))
      try await engine.releaseLease(object, as: holder)
      #expect(try await engine.acquireLease(object, as: "another", for: .seconds(1)))
      try await eventually("a lease ends by itself") {
        try await engine.acquireLease(object, as: "third", for: .seconds(600))
      }
      try await engine.releaseLease(object, as: "third")
    }
  }
}
