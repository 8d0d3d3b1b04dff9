import Foundation
import NIOCore
import Testing

@testable import BlobCacheRemote

/// Failing networks, suspended servers, and invalid replies.
@Suite(.timeLimit(.minutes(5)), .enabled(if: ValkeyProgram.redis.missing == nil, "no redis-server"))
struct ValkeyFaultTests {
  private let records: Records
  private let name = RemoteName("faults/\(UUID().uuidString)")

  init() throws { records = try Records() }

  private func settings(_ port: Int) -> ValkeyEngine.Settings {
    var settings = ValkeyEngine.Settings([ValkeyAddress("127.0.0.1", port: port)])
    settings.connectTime = .seconds(60)
    return settings
  }

  private func error(_ body: () async throws -> Void) async -> RemoteError? {
    do {
      try await body()
      return nil
    } catch {
      return error as? RemoteError
    }
  }

  /// The replies to HELLO and to CLUSTER SLOTS have about 200 bytes; the object has 200,000.
  @Test(arguments: [
    FaultProxy.Fault.refuse, .truncate(after: 0), .truncate(after: 20), .truncate(after: 5000), .reset(after: 5000),
  ])
  func aBrokenConnectionIsAnErrorAndMadeAnew(_ fault: FaultProxy.Fault) async throws {
    let node = try await ValkeyNode.redis.value
    let proxy = try FaultProxy(to: node.address.port)
    let engine = try ValkeyEngine(settings(proxy.port))
    let record = try records.inMemory(Records.bytes(200_000, seed: 6))
    try await engine.put(record, as: name)
    try proxy.set(fault)
    // The engine detects the end of existing connections with a delay.
    try await eventually("it is noticed") {
      let failure = await error { _ = try await engine.get(name) }
      return failure?.kind == .unreachable && failure?.message.contains("127.0.0.1:\(proxy.port)") == true
    }
    try proxy.set(.none)
    try await eventually("it is asked again") {
      do {
        return try await engine.bytes(of: name) == record.bytes
      } catch {
        return false
      }
    }
    try await engine.remove(name)
    await engine.close()
  }

  @Test func aServerThatSaysNothingTakesNoLongerThanAConnectionMay() async throws {
    let proxy = try FaultProxy(to: 1)
    try proxy.set(.hang)
    var settings = settings(proxy.port)
    settings.connectTime = .milliseconds(200)
    let engine = try ValkeyEngine(settings)
    let failure = await error { _ = try await engine.get(name) }
    #expect(failure?.kind == .timedOut)
    #expect(failure?.message.contains("connectTime") == true)
    // A waiting request can be cancelled before the timeout.
    settings.connectTime = .seconds(3600)
    let patient = try ValkeyEngine(settings)
    let asking = Task { try await patient.head(name) }
    let listening = Task { _ = try await patient.announcements(on: "changes") }
    for task in [asking.cancel, listening.cancel] { task() }
    await #expect(throws: CancellationError.self) { try await asking.value }
    await #expect(throws: CancellationError.self) { try await listening.value }
    for engine in [engine, patient] { await engine.close() }
  }

  /// Requests that wait on a dead connection end. After the server resumes, requests succeed again.
  @Test func aServerMayStopAndGoOn() async throws {
    let node = try await ValkeyNode(.redis)
    var settings = node.settings
    settings.connections = 1
    let engine = try ValkeyEngine(settings)
    let record = try records.inMemory(Data("a".utf8))
    try await engine.put(record, as: name)
    let texts = try await engine.announcements(
      on: "changes", askingAfter: .milliseconds(100), patience: .milliseconds(100))
    node.server.send(SIGSTOP)
    let ended = Counter()
    let waiting = Task {
      defer { _ = ended.increment() }
      return await error { _ = try await engine.get(name) }
    }
    try await eventually("what waits has ended") {
      let cancelled = Task { try await engine.get(name) }
      try await Task.sleep(for: .milliseconds(400))
      cancelled.cancel()
      _ = await cancelled.result
      return ended.value > 0
    }
    #expect(await waiting.value?.kind == .timedOut)
    let silence = await error { for try await _ in texts {} }
    #expect(silence?.kind == .timedOut)
    node.server.send(SIGCONT)
    #expect(try await engine.bytes(of: name) == record.bytes)
    await engine.close()
  }

  /// Versions before Redis 6 and some proxies do not support HELLO.
  @Test func serversWithoutHelloAreSpokenToAsBefore() async throws {
    let node = try await ValkeyNode(.redis, ["--rename-command", "HELLO", "", "--requirepass", "word"])
    var settings = node.settings
    settings.password = .fixed("word")
    let engine = try ValkeyEngine(settings)
    let record = try records.inMemory(Records.bytes(2 << 20, seed: 7))
    try await engine.put(record, as: name)
    #expect(try await engine.bytes(of: name) == record.bytes)
    #expect(try await engine.names(name) == [name.string])
    #expect(try await engine.acquireLease(name, as: "a", for: .seconds(60)))
    #expect(try await !engine.acquireLease(name, as: "b", for: .seconds(60)))
    let texts = try await engine.announcements(on: "changes", askingAfter: .milliseconds(1), patience: .seconds(600))
    try await engine.announce("text", on: "changes")
    for try await text in texts {
      #expect(text == "text")
      break
    }
    await engine.close()
    for password in [nil, Secret.fixed("wrong")] {
      settings.password = password
      let engine = try ValkeyEngine(settings)
      #expect(await error { _ = try await engine.get(name) }?.kind == .refused)
      await engine.close()
    }
  }

  /// Replies that a correct server does not send.
  @Test(arguments: [
    ("+OK\r\n", RemoteError.Kind.failed, "another type"), ("hello\r\n", .failed, "no RESP"),
    ("$9999999\r\n", .failed, "no RESP"), ("-LOADING wait\r\n", .throttled(nil), "pause"),
    ("", .unreachable, "broke off"),
    ("-MOVED 1 :PORT\r\n", .failed, "more than 5 times"), ("-ASK 1 127.0.0.1:PORT\r\n", .failed, "more than 5 times"),
    ("-MOVED 1 nowhere\r\n", .failed, "MOVED"), ("-MOVED\r\n", .failed, "MOVED"),
    ("-MOVED 1 192.0.2.1:6379\r\n", .refused, "insecure"), ("-ASK 1 192.0.2.1:6379\r\n", .refused, "insecure"),
    ("-MOVED 1 127.0.0.1:1\r\n", .unreachable, "127.0.0.1:1"), ("_\r\n", .failed, "another type"),
  ])
  func strangeRepliesAreErrors(_ reply: String, kind: RemoteError.Kind, words: String) async throws {
    let port = try EngineServer.freePorts(1)[0]
    let server = try StrangeServer(port: port) { command in
      command[0] == "GETRANGE" ? reply.replacing("PORT", with: "\(port)") : nil
    }
    let engine = try ValkeyEngine(settings(port))
    let failure = await error { _ = try await engine.get(name) }
    #expect(failure?.kind == kind)
    #expect(failure?.message.contains(words) == true, "\(String(describing: failure))")
    await engine.close()
    server.close()
  }

  /// An unrequested reply ends the connection, because it could be taken for the reply to the next request.
  @Test func aReplyTooManyEndsTheConnection() async throws {
    let server = try StrangeServer(port: 0) { command in
      command[0] == "GETRANGE" ? "$1\r\na\r\n$1\r\nb\r\n" : nil
    }
    let engine = try ValkeyEngine(settings(server.port))
    for _ in 0..<20 {
      // The connection ends before the next request or during it.
      guard let head = try? await engine.head(name) else { continue }
      #expect(head == Data("a".utf8))
    }
    await engine.close()
    server.close()
  }

  /// Without ASKING, the node redirects the command again.
  @Test func aNodeMayTakeNoAsking() async throws {
    let port = try EngineServer.freePorts(1)[0]
    let server = try StrangeServer(port: port) { command in
      switch command[0] {
      case "GETRANGE": "-ASK 1 127.0.0.1:\(port)\r\n"
      case "ASKING": "-NOPERM User a has no permissions to run the 'asking' command\r\n"
      default: nil
      }
    }
    let engine = try ValkeyEngine(settings(port))
    let failure = await error { _ = try await engine.get(name) }
    #expect(failure?.kind == .refused)
    #expect(failure?.message.contains("asking") == true, "\(String(describing: failure))")
    await engine.close()
    server.close()
  }

  /// A list requests the topology first. A busy node must not be taken for a single server with all keys.
  @Test(arguments: [
    ("-BUSY Redis is busy running a script\r\n", RemoteError.Kind.throttled(nil), "pause"),
    ("-ERR something\r\n", .failed, "something"), ("-NOPERM no\r\n", .refused, "cluster|slots"),
    ("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n192.0.2.1\r\n:6379\r\n", .refused, "insecure"),
  ])
  func listsNeedAllNodes(_ slots: String, kind: RemoteError.Kind, words: String) async throws {
    let server = try StrangeServer(port: 0) { $0[0] == "CLUSTER" ? slots : nil }
    let engine = try ValkeyEngine(settings(server.port))
    let failure = await error { _ = try await engine.list(name, page: nil) }
    #expect(failure?.kind == kind)
    #expect(failure?.message.contains(words) == true, "\(String(describing: failure))")
    await engine.close()
    server.close()
  }

  /// The error arrives before HELLO is sent, or appears to be its reply.
  @Test(arguments: [
    ("-ERR max number of clients reached\r\n", RemoteError.Kind.throttled(nil)),
    ("-DENIED Redis is running in protected mode\r\n", .refused),
  ])
  func aServerMayTakeNoConnection(_ text: String, _ kind: RemoteError.Kind) async throws {
    let listener = try Listener(port: 0) { connection in
      connection.write(text.utf8)
      while !connection.read().isEmpty {}
    }
    let engine = try ValkeyEngine(settings(listener.port))
    #expect(await error { _ = try await engine.get(name) }?.kind == kind)
    await engine.close()
    listener.close()
  }

  @Test func aClusterWithoutSlotsIsTold() async throws {
    let server = try StrangeServer(port: 0) { $0[0] == "CLUSTER" ? "*0\r\n" : nil }
    let engine = try ValkeyEngine(settings(server.port))
    let failure = await error { _ = try await engine.get(name) }
    #expect(failure?.kind == .failed)
    #expect(failure?.message.contains("CLUSTER INFO") == true)
    await engine.close()
    server.close()
  }
}

/// A server that responds like a single Redis, except for some commands.
private struct StrangeServer {
  private let listener: Listener
  var port: Int { listener.port }

  /// - Parameter answer: Returns the reply to a command, `nil` for that of Redis, or an empty string to disconnect.
  init(port: Int, _ answer: @escaping @Sendable ([String]) -> String?) throws {
    listener = try Listener(port: port) { connection in
      var (decoder, unread) = (RESPDecoder(), ByteBuffer())
      while case let bytes = connection.read(), !bytes.isEmpty {
        unread.writeBytes(bytes)
        while let command = try? decoder.next(from: &unread)?.elements?.compactMap(\.text) {
          let usual = command[0] == "CLUSTER" ? "-ERR This instance has cluster support disabled\r\n" : "+OK\r\n"
          guard case let reply = answer(command) ?? usual, !reply.isEmpty else { return connection.close() }
          connection.write(reply.utf8)
        }
      }
    }
  }

  func close() { listener.close() }
}
