public import BlobRecord
public import BlobStore
internal import Locks

/// A view of a cache as a cache of values of one type.
///
/// Several views with different types can share a cache. Values are decoded on each load, on the caller's thread.
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
  /// Returns a view of the cache whose values are stored as JSON.
  public func values<Value: Codable & Sendable>(of type: Value.Type) -> BlobValues<JSONValueCoder<Value>> {
    BlobValues(self, coder: JSONValueCoder())
  }

  /// Returns a view of the cache whose values are encoded by a coder.
  public func values<Coder: ValueCoder>(of type: Coder.Value.Type, coder: Coder) -> BlobValues<Coder> {
    BlobValues(self, coder: coder)
  }
}

extension BlobValues {
  /// Returns the live value for a key, or `nil` if it does not exist.
  ///
  /// - Throws: `undecodableValue` if decoding fails, which counts as damage, and the errors of `BlobCache.load`.
  public func value(for key: BlobKey, touching: Bool = true) async throws -> Value? {
    guard let blob = try await cache.load(key, touching: touching) else { return nil }
    return try decode(blob)
  }

  /// Returns the live value for a key, or stores and returns the value that `produce` creates.
  ///
  /// A blob that cannot be decoded counts as missing. Otherwise the method behaves like
  /// `BlobCache.load(_:options:orStore:)`.
  ///
  /// - Throws: Errors of `produce`, `unencodableValue`, and the errors of `BlobCache.load(_:options:orStore:)`.
  public func value(
    for key: BlobKey, options: ProductionOptions = ProductionOptions(),
    orStore produce: @escaping @Sendable () async throws -> Value
  ) async throws -> Value {
    // A payload that cannot be decoded may be from an earlier version of the app.
    let decoding = SingleDecoding(decode)
    let blob = try await cache.load(
      ProductionRequest(key: key, options: options, isAcceptable: decoding.accepts) {
        Produced(try encode(try await produce(), for: key))
      })
    return try decoding.value(of: blob)
  }

  /// Stores a value, like `BlobCache.store`.
  ///
  /// - Throws: `unencodableValue`, and the errors of `BlobCache.store`.
  public func store(
    _ value: Value, for key: BlobKey, ttl: Duration? = nil, locks: BlobStore.LockPolicy = .none
  ) async throws {
    try await cache.store(
      try encode(value, for: key), for: key, ttl: ttl, locks: locks)
  }

  /// Removes the record of a key.
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

/// Encodes values as payloads and decodes them.
public protocol ValueCoder<Value>: Sendable {
  associatedtype Value: Sendable

  /// - Throws: Any error, which the cache wraps as `unencodableValue`.
  func encode(_ value: Value) throws -> Data

  /// - Throws: Any error, which the cache wraps as `undecodableValue`.
  func decode(_ payload: Data) throws -> Value
}

/// A coder for JSON, with configurable encoders and decoders.
public struct JSONValueCoder<Value: Codable & Sendable>: ValueCoder {
  private let makeEncoder: @Sendable () -> JSONEncoder
  private let makeDecoder: @Sendable () -> JSONDecoder

  /// Creates a coder, which calls both closures for each value, because threads must not share encoders and decoders.
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

/// Decodes each blob of one load only once, even if several lookups or another waiter find the same blob.
final class SingleDecoding<Value: Sendable>: Sendable {
  private struct State: Sendable {
    /// The value of the first blob that was decoded, which is the load's result if `accepts` was called.
    var value: Value?
    var undecodable: Data?
  }

  private let state = Lock(State())
  private let decode: @Sendable (Blob) throws -> Value

  init(_ decode: @escaping @Sendable (Blob) throws -> Value) { self.decode = decode }

  func accepts(_ blob: Blob) -> Bool {
    // The bytes are compared, because a blob that is read again is another object; decoding costs much more.
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

  func value(of blob: Blob) throws -> Value {
    // Without a call of `accepts`, the blob was produced by this or another task.
    try state.withLock { $0.value } ?? decode(blob)
  }
}
