public import BlobRecord
public import BlobStore
internal import Locks

/// A cache seen as one of values of one type.
///
/// It keeps nothing itself: several views, of several types, may share a cache. Values are decoded at each load, on the
/// caller's thread.
public struct BlobValues<Coder: ValueCoder>: Sendable {
  public typealias Value = Coder.Value

  public let cache: BlobCache
  public let coder: Coder

  public init(_ cache: BlobCache, coder: Coder) {
    self.cache = cache
    self.coder = coder
  }
}

extension BlobCache {
  /// The cache as one of values of a type, stored as JSON.
  public func values<Value: Codable & Sendable>(of type: Value.Type) -> BlobValues<JSONValueCoder<Value>> {
    BlobValues(self, coder: JSONValueCoder())
  }

  /// The cache as one of values, stored as a coder says.
  public func values<Coder: ValueCoder>(of type: Coder.Value.Type, coder: Coder) -> BlobValues<Coder> {
    BlobValues(self, coder: coder)
  }
}

extension BlobValues {
  /// The value stored under a key, if it is live.
  ///
  /// - Throws: `undecodableValue` if the blob decodes to no value, which counts as damage; as `BlobCache.load`.
  public func value(for key: BlobKey, touching: Bool = true) async throws -> Value? {
    guard let blob = try await cache.load(key, touching: touching) else { return nil }
    return try decode(blob)
  }

  /// The live value stored under a key, or the one that `produce` makes, which is stored.
  ///
  /// A blob that does not decode counts as missing. Otherwise as `BlobCache.load(_:options:orStore:)`.
  ///
  /// - Throws: what `produce` throws; `unencodableValue`; as `BlobCache.load(_:options:orStore:)`.
  public func value(
    for key: BlobKey, options: ProductionOptions = ProductionOptions(),
    orStore produce: @escaping @Sendable () async throws -> Value
  ) async throws -> Value {
    // A payload that does not decode may be an earlier version's.
    let decoding = SingleDecoding(decode)
    let blob = try await cache.load(
      ProductionRequest(key: key, options: options, isAcceptable: decoding.accepts) {
        Produced(try encode(try await produce(), for: key))
      })
    return try decoding.value(of: blob)
  }

  /// Stores a value, as `BlobCache.store`.
  ///
  /// - Throws: `unencodableValue`; as `BlobCache.store`.
  public func store(
    _ value: Value, for key: BlobKey, ttl: Duration? = nil, locks: BlobStore.LockPolicy = .none
  ) async throws {
    try await cache.store(
      try encode(value, for: key), for: key, ttl: ttl, locks: locks)
  }

  /// Removes a key's record.
  @discardableResult
  public func remove(_ key: BlobKey) async throws -> BlobStore.Outcome { try await cache.remove(key) }

  private func decode(_ blob: Blob) throws -> Value {
    do {
      return try coder.decode(blob.payload)
    } catch {
      let failure = BlobCacheError(
        .undecodableValue, "no \(Value.self): \(error)", key: blob.key, path: cache.directory, cause: error)
      cache.engine.observer.tell(CacheEvent(.damaged(failure), blob.key, byteCount: blob.payload.count))
      throw failure
    }
  }

  private func encode(_ value: Value, for key: BlobKey) throws -> Data {
    do {
      return try coder.encode(value)
    } catch {
      throw BlobCacheError(.unencodableValue, "\(error)", key: key, path: cache.directory, cause: error)
    }
  }
}

/// Turns values into payloads and back.
public protocol ValueCoder<Value>: Sendable {
  associatedtype Value: Sendable

  /// - Throws: any error; the cache wraps it as `unencodableValue`.
  func encode(_ value: Value) throws -> Data

  /// - Throws: any error; the cache wraps it as `undecodableValue`.
  func decode(_ payload: Data) throws -> Value
}

/// JSON, with `JSONEncoder` and `JSONDecoder` as they are configured here.
public struct JSONValueCoder<Value: Codable & Sendable>: ValueCoder {
  private let makeEncoder: @Sendable () -> JSONEncoder
  private let makeDecoder: @Sendable () -> JSONDecoder

  /// - Parameters: each is called for each value, because encoders and decoders must not be shared by threads.
  public init(
    encoder: @escaping @Sendable () -> JSONEncoder = { JSONEncoder() },
    decoder: @escaping @Sendable () -> JSONDecoder = { JSONDecoder() }
  ) {
    makeEncoder = encoder
    makeDecoder = decoder
  }

  public func encode(_ value: Value) throws -> Data { try makeEncoder().encode(value) }

  public func decode(_ payload: Data) throws -> Value { try makeDecoder().decode(Value.self, from: payload) }
}

/// The decoding of one load's blobs: each once, even if several looks find it.
///
/// Looks in memory, on disk, and by other waiters may find one blob.
final class SingleDecoding<Value: Sendable>: Sendable {
  private struct State: Sendable {
    /// The value of the first blob that decoded; it is the load's answer, if it asks.
    var value: Value?
    var undecodable: Data?
  }

  private let state = Lock(State())
  private let decode: @Sendable (Blob) throws -> Value

  init(_ decode: @escaping @Sendable (Blob) throws -> Value) { self.decode = decode }

  /// Whether a blob decodes.
  func accepts(_ blob: Blob) -> Bool {
    // The bytes are compared, which costs little beside their decoding, because a blob read again is another object.
    guard state.withLock({ $0.undecodable }) != blob.payload else { return false }
    do {
      let value = try decode(blob)
      state.withLock { $0.value = $0.value ?? value }
      return true
    } catch {
      state.withLock { $0.undecodable = blob.payload }
      return false
    }
  }

  /// The value of the blob that the load has answered.
  func value(of blob: Blob) throws -> Value {
    // None was asked about: it is what was produced, here or by another.
    try state.withLock { $0.value } ?? decode(blob)
  }
}
