import BlobCache
import BlobCacheServer
import BlobRecord
import Foundation
import SystemPackage
import TestSupport
import Testing

/// A responder with a temporary directory and a manual clock.
struct TestServer {
  let outside: TemporaryDirectory
  let root: FilePath
  let clock = ManualClock()
  let cache: BlobCache
  let responder: BlobResponder

  init(
    _ answering: BlobResponder.Configuration = .init(), _ change: (inout BlobCache.Configuration) -> Void = { _ in }
  ) throws {
    outside = try TemporaryDirectory()
    root = outside.path.appending("cache")
    var configuration = BlobCache.Configuration()
    configuration.store.durability = .none
    // Responses must not depend on packing. Suites that check record files disable packing.
    configuration.store.packing = .upTo(8192)
    configuration.store.limits.freeSpaceFloor = 0
    configuration.store.now = { [clock] in clock.now }
    configuration.memory?.respondsToMemoryPressure = false
    change(&configuration)
    cache = try BlobCache(directory: root, configuration: configuration)
    responder = BlobResponder(cache: cache, configuration: answering)
  }

  func send(
    _ method: String, _ target: String, _ fields: HeaderFields = [:], _ body: MessageBody = .none
  ) async throws -> Answer {
    try await Answer(responder.respond(to: ServerRequest(method: method, target: target, fields: fields, body: body)))
  }

  func put(_ key: String, _ text: String, _ fields: HeaderFields = [:]) async throws -> Answer {
    try await send("PUT", "/v1/blobs/" + key, fields, .bytes(Data(text.utf8)))
  }

  func get(_ key: String, _ fields: HeaderFields = [:]) async throws -> Answer {
    try await send("GET", "/v1/blobs/" + key, fields)
  }

  /// Returns the names of unfinished files, none of which may remain.
  func temporaryFiles() throws -> [String] {
    guard let walk = FileManager.default.enumerator(atPath: root.string) else { return [] }
    return walk.compactMap { $0 as? String }.filter { $0.contains(".tmp-") }
  }

  /// Returns the allocated size of unfinished files, in bytes.
  func temporaryBytes() throws -> Int64 {
    guard let walk = FileManager.default.enumerator(atPath: root.string) else { return 0 }
    return walk.compactMap { $0 as? String }.filter { $0.contains(".tmp-") }.reduce(0) { total, name in
      var status = stat()
      guard lstat(root.appending(name).string, &status) == 0 else { return total }
      return total + Int64(status.st_blocks) * 512
    }
  }
}

/// A response whose body was read to its end.
struct Answer {
  let response: ServerResponse
  let payload: Data
  let pieceCount: Int

  var status: Int { response.status }
  var text: String { String(decoding: payload, as: UTF8.self) }

  subscript(name: String) -> String? { response.fields[name] }

  init(_ response: ServerResponse) async throws {
    self.response = response
    switch response.body {
    case .none, .omitted: (payload, pieceCount) = (Data(), 0)
    case .bytes(let data): (payload, pieceCount) = (data, 1)
    case .stream(let byteCount, let pieces):
      var (payload, count) = (Data(), 0)
      for try await piece in pieces {
        payload.append(piece)
        count += 1
      }
      if let byteCount { #expect(Int64(payload.count) == byteCount) }
      (self.payload, pieceCount) = (payload, count)
    case .file(let part):
      var (payload, count) = (Data(), 0)
      for try await stretch in part {
        payload.append(part.withDescriptor { Self.read(stretch, from: $0) })
        count += 1
      }
      #expect(Int64(payload.count) == part.byteCount)
      (self.payload, pieceCount) = (payload, count)
    }
  }

  /// Returns the bytes that the system would send.
  private static func read(_ stretch: Range<Int64>, from descriptor: CInt) -> Data {
    var bytes = Data(count: stretch.count)
    let count = bytes.withUnsafeMutableBytes { pread(descriptor, $0.baseAddress, $0.count, off_t(stretch.lowerBound)) }
    return bytes.prefix(max(count, 0))
  }
}

/// A body in chunks that may break off.
struct Pieces: AsyncSequence, Sendable {
  typealias Element = Data
  typealias Failure = any Error

  let pieces: [Data]
  var breaksOff = false

  var body: MessageBody { .stream(byteCount: nil, self) }

  func body(told byteCount: Int64) -> MessageBody { .stream(byteCount: byteCount, self) }

  func makeAsyncIterator() -> Iterator { Iterator(rest: pieces[...], breaksOff: breaksOff) }

  struct Iterator: AsyncIteratorProtocol {
    var rest: ArraySlice<Data>
    let breaksOff: Bool

    mutating func next() async throws -> Data? {
      if let piece = rest.popFirst() { return piece }
      if breaksOff { throw BodyBrokenOff() }
      return nil
    }
  }
}
