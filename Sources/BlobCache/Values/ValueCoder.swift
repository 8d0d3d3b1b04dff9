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
