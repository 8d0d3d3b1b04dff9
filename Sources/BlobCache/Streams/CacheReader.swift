public import BlobRecord
public import BlobStore

/// A blob that is read in parts: `BlobCache.openReader`.
///
/// It keeps its blob, whatever becomes of the key. What it reads does not go to memory. Any number of tasks may use it.
public final class CacheReader: Sendable {
  /// The blob for code that may block.
  public let blocking: BlobReader
  let engine: CacheEngine

  init(_ engine: CacheEngine, _ reader: BlobReader) {
    self.engine = engine
    blocking = reader
  }

  public var key: BlobKey { blocking.key }
  /// As it was when the reader was opened.
  public var header: RecordHeader { blocking.header }
  /// Bytes of payload.
  public var byteCount: Int64 { blocking.byteCount }

  /// The bytes of a range of the payload.
  ///
  /// - Parameters:
  ///   - range: offsets in the payload, from 0 to `byteCount`.
  ///   - verifying: whether to compare the checksum of the whole payload first, unless this reader has done so.
  /// - Throws: as `BlobReader.read`; `CancellationError` if the task is cancelled while it waits for a thread; `closed`.
  public func read(_ range: Range<Int64>, verifying: Bool = false) async throws -> Data {
    try await engine.lanes.reads.run { [blocking] _ in try blocking.read(range, verifying: verifying) }
  }

  /// Calls a closure with the payload, mapped into memory and not copied, on a thread of the cache's.
  ///
  /// - Parameters:
  ///   - verifying: whether to compare the checksum first, unless this reader has done so.
  ///   - body: receives the bytes, which are gone when it returns; it may block.
  /// - Throws: what `body` throws; as `read`.
  public func withMappedBytes<Result: Sendable>(
    verifying: Bool = true, _ body: @escaping @Sendable (RawSpan) throws -> Result
  ) async throws -> Result {
    try await engine.lanes.reads.run { [blocking] _ in try blocking.withMappedBytes(verifying: verifying, body) }
  }

  /// The payload, or a range of it, in pieces.
  ///
  /// The whole payload is verified on the way, and its last piece comes once the checksum is right. The next piece is read
  /// when it is asked for.
  ///
  /// - Parameters:
  ///   - range: offsets in the payload; nil for all of it.
  ///   - pieceSize: bytes of a piece, above 0. The last may have fewer.
  public func pieces(of range: Range<Int64>? = nil, pieceSize: Int = 256 << 10) -> Pieces {
    Pieces(reader: self, range: range ?? 0..<byteCount, pieceSize: pieceSize)
  }

  /// Compares the checksum of the payload, which is read as a whole.
  ///
  /// - Throws: as `BlobReader.verify`; as `read`.
  package func verify() async throws {
    try await engine.lanes.reads.run { [blocking] _ in try blocking.verify() }
  }

  /// Reads the next bytes of a walk and drops them, so that the system has them in memory.
  ///
  /// - Returns: how many they are; 0 at the end.
  /// - Throws: as `read`; `damaged` with the last bytes of a whole payload whose checksum is wrong.
  package func pass(_ pieces: BlobPieces, byteCount: Int) async throws -> (count: Int, BlobPieces) {
    try await engine.lanes.reads.run { [blocking] _ in
      var pieces = pieces
      do {
        return (try pieces.pass(byteCount: byteCount), pieces)
      } catch {
        throw BlobStoreError(anything: error, operation: "load", key: blocking.key)
      }
    }
  }

  fileprivate func next(_ pieces: BlobPieces, pieceSize: Int) async throws -> (piece: Data, BlobPieces) {
    try await engine.lanes.reads.run { [blocking] _ in
      var pieces = pieces
      let buffer = unsafe pieces.makeBuffer(pieceSize: pieceSize)
      defer { unsafe buffer.deallocate() }
      do {
        let count = try unsafe pieces.next(into: buffer)
        return (unsafe Data(bytes: buffer.baseAddress!, count: count), pieces)
      } catch {
        throw BlobStoreError(anything: error, operation: "load", key: blocking.key)
      }
    }
  }
}

extension CacheReader {
  /// The pieces of a payload, in order.
  public struct Pieces: AsyncSequence, Sendable {
    let reader: CacheReader
    let range: Range<Int64>
    let pieceSize: Int

    public func makeAsyncIterator() -> Iterator { Iterator(pieces: self) }

    public struct Iterator: AsyncIteratorProtocol {
      private let pieces: Pieces
      /// nil before the first piece.
      private var walk: BlobPieces?
      private var isOver = false

      init(pieces: Pieces) { self.pieces = pieces }

      /// - Returns: nil at the end, and after an error.
      /// - Throws: as `read`.
      public mutating func next() async throws -> Data? {
        guard !isOver else { return nil }
        // An error is the last.
        isOver = true
        let walk = try self.walk ?? BlobPieces(of: pieces.range, in: pieces.reader.blocking)
        let (piece, next) = try await pieces.reader.next(walk, pieceSize: pieces.pieceSize)
        guard !piece.isEmpty else { return nil }
        self.walk = next
        isOver = false
        return piece
      }
    }
  }
}
