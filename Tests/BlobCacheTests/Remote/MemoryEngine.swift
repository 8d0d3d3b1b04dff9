import BlobCache
import BlobRecord
import Foundation
import Locks

/// A remote engine in memory that injects faults.
final class MemoryEngine: RemoteEngine {
  /// A fault of a request.
  enum Fault: Sendable {
    case fail(RemoteError.Kind)
    /// The request throws another error than the engine's.
    case error(any Error)
    /// No bytes arrive, and the request reacts to cancellation.
    case hang
    /// No bytes arrive, and the request ignores cancellation.
    case hangForGood
    /// The answer stops after this number of bytes.
    case stall(after: Int)
    /// The answer ends after this number of bytes.
    case truncate(to: Int)
    /// The answer throws an error after this number of bytes.
    case reset(after: Int)
    /// One bit of the byte at this offset is flipped.
    case flip(at: Int)
    /// The answer consists of these bytes instead.
    case answer(Data)
  }

  enum Request: Hashable, Sendable {
    case get(String), put(String), remove(String), head(String), lease(String), announce
  }

  private struct State {
    var objects: [String: Data] = [:]
    var modified: UnixTime?
    var leases: [String: String] = [:]
    var listeners: [Int: AsyncThrowingStream<String, any Error>.Continuation] = [:]
    var nextListener = 0
    var requests: [Request] = []
    var fault: (@Sendable (Request) -> Fault?)?
    var holder: (@Sendable (Request) async -> Void)?
    var onPut: (@Sendable (RemoteRecord) -> Void)?
    var isClosed = false
  }

  let name: String
  private let state = Lock(State())
  /// The size of the chunks of an answer, in bytes.
  private let pieceSize: Int

  init(_ name: String = "memory://test", pieceSize: Int = 1 << 16) {
    self.name = name
    self.pieceSize = pieceSize
  }

  /// Sets the fault of each request, starting with the next one.
  func fault(_ body: (@Sendable (Request) -> Fault?)?) { state.withLock { $0.fault = body } }
  func fault(_ fault: Fault?) { self.fault { _ in fault } }
  /// Sets a closure that requests wait for before they are carried out.
  func hold(_ body: (@Sendable (Request) async -> Void)?) { state.withLock { $0.holder = body } }

  /// Sets a closure that is called with each record that is put.
  func onPut(_ body: @escaping @Sendable (RemoteRecord) -> Void) { state.withLock { $0.onPut = body } }

  var requests: [Request] { state.withLock { $0.requests } }
  var objects: [String: Data] { state.withLock { $0.objects } }
  var isClosed: Bool { state.withLock { $0.isClosed } }
  /// Sets the modification time of all objects, or `nil` to report none.
  func setModified(_ time: UnixTime?) { state.withLock { $0.modified = time } }
  func set(_ bytes: Data?, _ name: String) { state.withLock { $0.objects[name] = bytes } }

  private func begin(_ request: Request) async throws -> Fault? {
    let (fault, holder) = state.withLock { state in
      state.requests.append(request)
      return (state.fault?(request), state.holder)
    }
    if let holder { await holder(request) }
    switch fault {
    case .fail(let kind): throw RemoteError(kind, "\(name) was told to fail")
    case .error(let error): throw error
    case .hang:
      try await Task.sleep(for: .seconds(1 << 20))
      return nil
    case .hangForGood:
      // The task is never resumed. It leaks, but occupies no thread.
      await withUnsafeContinuation { (_: UnsafeContinuation<Void, Never>) in }
      return nil
    default: return fault
    }
  }

  func get(_ name: RemoteName) async throws -> RemoteObject? {
    let fault = try await begin(.get(name.string))
    guard var bytes = state.withLock({ $0.objects[name.string] }) else { return nil }
    var (end, stalls, breaks) = (bytes.count, false, false)
    switch fault {
    case .stall(let count): (end, stalls) = (count, true)
    case .truncate(let count): end = count
    case .reset(let count): (end, breaks) = (count, true)
    case .flip(let place): bytes[place] ^= 1
    case .answer(let other):
      bytes = other
      end = other.count
    default: break
    }
    let (promised, pieceSize, sent) = (bytes.count, pieceSize, Data(bytes.prefix(end)))
    let (stallsThen, breaksThen) = (stalls, breaks)
    var object = RemoteObject(
      byteCount: Int64(promised),
      pieces: AsyncThrowingStream { continuation in
        let sender = Task {
          var rest = sent
          while !rest.isEmpty {
            continuation.yield(Data(rest.prefix(pieceSize)))
            rest = Data(rest.dropFirst(pieceSize))
          }
          if stallsThen { try? await Task.sleep(for: .seconds(1 << 20)) }
          continuation.finish(throwing: breaksThen ? RemoteError(.unreachable, "reset") : nil)
        }
        continuation.onTermination = { _ in sender.cancel() }
      })
    object.modified = state.withLock { $0.modified }
    return object
  }

  func head(_ name: RemoteName) async throws -> Data? {
    _ = try await begin(.head(name.string))
    return state.withLock { $0.objects[name.string] }.map { Data($0.prefix(64)) }
  }

  func put(_ record: RemoteRecord, as name: RemoteName) async throws {
    _ = try await begin(.put(name.string))
    state.withLock { $0.onPut }?(record)
    let bytes = try await record.collected()
    state.withLock { $0.objects[name.string] = bytes }
  }

  func remove(_ name: RemoteName) async throws {
    _ = try await begin(.remove(name.string))
    state.withLock { $0.objects[name.string] = nil }
  }

  func list(_ prefix: RemoteName, page: String?) async throws -> RemotePage {
    let names = state.withLock { $0.objects.keys.filter { $0.hasPrefix(prefix.string) }.sorted() }
    return RemotePage(names: names.map { RemoteName($0) })
  }

  func capabilities(under prefix: RemoteName) async throws -> RemoteCapabilities {
    var capabilities = RemoteCapabilities()
    capabilities.lists = true
    return capabilities
  }

  func close() async { state.withLock { $0.isClosed = true } }
}

extension MemoryEngine: RemoteLeasing, RemoteAnnouncing {
  func acquireLease(_ name: RemoteName, as holder: String, for time: Duration) async throws -> Bool {
    _ = try await begin(.lease(name.string))
    return state.withLock { state in
      guard state.leases[name.string] == nil else { return false }
      state.leases[name.string] = holder
      return true
    }
  }

  func releaseLease(_ name: RemoteName, as holder: String) async throws {
    state.withLock { if $0.leases[name.string] == holder { $0.leases[name.string] = nil } }
  }

  var leaseCount: Int { state.withLock { $0.leases.count } }

  func announce(_ text: String, on channel: String) async throws {
    _ = try await begin(.announce)
    say(text)
  }

  func say(_ text: String) { for listener in state.withLock({ $0.listeners.values }) { listener.yield(text) } }

  func announcements(on channel: String) async throws -> any AsyncSequence<String, any Error> & Sendable {
    let (stream, continuation) = AsyncThrowingStream<String, any Error>.makeStream()
    let number = state.withLock { state in
      state.nextListener += 1
      state.listeners[state.nextListener] = continuation
      return state.nextListener
    }
    continuation.onTermination = { [weak self] _ in self?.state.withLock { $0.listeners[number] = nil } }
    return stream
  }

  var listenerCount: Int { state.withLock { $0.listeners.count } }
  /// The number of calls that have started to listen.
  var listenCount: Int { state.withLock { $0.nextListener } }
  /// Breaks the connections of all listeners.
  func breakListeners() {
    for listener in state.withLock({ $0.listeners.values }) {
      listener.finish(throwing: RemoteError(.unreachable, "the connection broke"))
    }
  }
}

extension TestCache {
  /// Returns the cache of one machine that shares the engine.
  func node(
    _ engine: MemoryEngine, _ change: (inout BlobCache.Configuration) -> Void = { _ in }
  ) throws -> BlobCache {
    try cache { configuration in
      var tier = RemoteTier(engine, namespace: RemoteNamespace("test"))
      tier.writing = .through
      // Tests of deadlines set their own. All other tests must not fail on a slow machine.
      tier.deadlines.firstByte = .seconds(300)
      tier.deadlines.progress = .seconds(300)
      tier.deadlines.change = .seconds(300)
      tier.jitter = { 1 }
      configuration.remote = tier
      change(&configuration)
    }
  }
}
