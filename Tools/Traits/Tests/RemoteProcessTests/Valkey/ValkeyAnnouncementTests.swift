import Foundation
import Testing

@testable import BlobCacheRemote

@Suite(.timeLimit(.minutes(5)), .enabled(if: ValkeyProgram.redis.missing == nil, "no redis-server"))
struct ValkeyAnnouncementTests {
  private let channel = "changes-\(UUID().uuidString)"

  private func collect(
    _ count: Int, _ texts: any AsyncSequence<String, any Error> & Sendable
  ) async throws -> [String] {
    var found: [String] = []
    for try await text in texts {
      found.append(text)
      if found.count == count { break }
    }
    return found
  }

  @Test func othersHearWhatIsAnnounced() async throws {
    for settings in [try await ValkeyNode.redis.value.settings, try await ValkeyCluster.shared.value.settings] {
      let (sender, listener) = (try ValkeyEngine(settings), try ValkeyEngine(settings))
      let (texts, others) = (
        try await listener.announcements(on: channel), try await listener.announcements(on: channel + "-other")
      )
      let sent = ["a", "ä \u{1F600}", "", "two\r\nlines"]
      for text in sent { try await sender.announce(text, on: channel) }
      try await sender.announce("other", on: channel + "-other")
      #expect(try await collect(sent.count, texts) == sent)
      #expect(try await collect(1, others) == ["other"])
      for engine in [sender, listener] { await engine.close() }
    }
  }

  /// Queued texts take memory, and no cache announces such a long text.
  @Test func longTextsAreLeftOut() async throws {
    let engine = try ValkeyEngine(try await ValkeyNode.redis.value.settings)
    let texts = try await engine.announcements(on: channel)
    let longest = String(repeating: "a", count: 100_000)
    for text in [longest + "a", longest, "end"] { try await engine.announce(text, on: channel) }
    #expect(try await collect(2, texts) == [longest, "end"])
    await engine.close()
  }

  @Test func itEndsWithTheServer() async throws {
    let node = try await ValkeyNode(.redis)
    let (engine, other) = (try ValkeyEngine(node.settings), try ValkeyEngine(node.settings))
    let (texts, closed) = (
      try await engine.announcements(on: channel), try await other.announcements(on: channel)
    )
    await other.close()
    await #expect(throws: RemoteError.self) { for try await _ in closed {} }
    try await engine.announce("last", on: channel)
    var found: [String] = []
    do {
      for try await text in texts {
        found.append(text)
        node.server.kill()
      }
      Issue.record("it ended without an error")
    } catch {
      #expect((error as? RemoteError)?.kind == .unreachable)
    }
    #expect(found == ["last"])
    await #expect(throws: RemoteError.self) { try await engine.announcements(on: channel) }
    await engine.close()
  }

  /// Releasing the sequence closes its connection.
  @Test func whatIsLetGoIsClosed() async throws {
    let node = try await ValkeyNode.redis.value
    let engine = try ValkeyEngine(node.settings)
    func listeners() async throws -> Int64? {
      try await node.ask("PUBSUB", "NUMSUB", channel).elements?.last?.integer
    }
    do {
      let texts = try await engine.announcements(on: channel)
      #expect(try await listeners() == 1)
      _ = consume texts
    }
    try await eventually("nobody listens") { try await listeners() == 0 }
    await engine.close()
  }

  /// A listener that is too slow gets an error, because it has missed texts.
  @Test func whatIsNotTakenEnds() async throws {
    let node = try await ValkeyNode.redis.value
    let engine = try ValkeyEngine(node.settings)
    let texts = try await engine.announcements(on: channel)
    try await withThrowingTaskGroup(of: Void.self) { group in
      for index in 0..<4200 {
        if index >= 100 { try await group.next() }
        group.addTask { try await engine.announce("\(index)", on: channel) }
      }
      try await group.waitForAll()
    }
    try await eventually("the connection is closed") {
      try await node.ask("PUBSUB", "NUMSUB", channel).elements?.last?.integer == 0
    }
    var count = 0
    await #expect(throws: RemoteError.self) { for try await _ in texts { count += 1 } }
    #expect(count == 4096)
    await engine.close()
  }
}
