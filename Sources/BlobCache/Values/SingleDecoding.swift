internal import BlobStore
internal import Locks

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
