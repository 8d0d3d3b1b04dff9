public import BlobRecord
public import BlobStore

/// A blob that is read in parts: `BlobCache.openReader`.
///
/// It keeps its blob even if the key is replaced or removed, and bypasses memory. Any number of tasks may use it.
public final class CacheReader: Sendable {
  /// The reader for code that may block.
  public let blocking: BlobReader
  let engine: CacheEngine

  init(_ engine: CacheEngine, _ reader: BlobReader) {
    self.engine = engine
    blocking = reader
  }

  public var key: BlobKey { blocking.key }
  /// The header at the time when the reader was opened.
  public var header: RecordHeader { blocking.header }
  /// The size of the payload in bytes.
  public var byteCount: Int64 { blocking.byteCount }

  /// Returns the bytes of a range of the payload.
  ///
  /// - Parameters:
  ///   - range: The offsets in the payload, from 0 to `byteCount`.
  ///   - verifying: A Boolean value that indicates whether the checksum of the whole payload is verified first, unless
  ///     this reader has already verified it.
  /// - Throws: The errors of `BlobReader.read`; `CancellationError` during the wait for a thread; `closed`.
  public func read(_ range: Range<Int64>, verifying: Bool = false) async throws -> Data {
    try await engine.lanes.reads.run { [blocking] _ in try blocking.read(range, verifying: verifying) }
  }

  /// Calls a closure with the payload, mapped into memory without a copy, on a thread of the cache.
  ///
  /// - Parameters:
  ///   - verifying: A Boolean value that indicates whether the checksum is verified first, unless it already was.
  ///   - body: A closure that receives the bytes, which are valid until it returns; it may block.
  /// - Throws: The errors of `body` and of `read`.
  public func withMappedBytes<Result: Sendable>(
    verifying: Bool = true, _ body: @escaping @Sendable (RawSpan) throws -> Result
  ) async throws -> Result {
    try await engine.lanes.reads.run { [blocking] _ in try blocking.withMappedBytes(verifying: verifying, body) }
  }

  /// Returns the payload, or a range of it, in pieces that are read on demand.
  ///
  /// A whole payload is verified during the iteration, whose last piece is only returned if the checksum is correct.
  ///
  /// - Parameters:
  ///   - range: The offsets in the payload, or `nil` for the whole payload.
  ///   - pieceSize: The size of a piece in bytes, above 0. The last piece may be smaller.
  public func pieces(of range: Range<Int64>? = nil, pieceSize: Int = 256 << 10) -> Pieces {
    Pieces(reader: self, range: range ?? 0..<byteCount, pieceSize: pieceSize)
  }

  package func verify() async throws {
    try await engine.lanes.reads.run { [blocking] _ in try blocking.verify() }
  }

  /// Returns the SHA-256 of the payload. The cache's threads compute it, in pieces, so that other operations continue.
  ///
  /// - Throws: The errors of `read`.
  /// - Complexity: Reads the whole payload.
  package func sha256() async throws -> [UInt8] {
    var hasher = SHA256Hasher()
    for start in stride(from: 0, to: byteCount, by: 256 << 10) {
      let range = start..<min(start + (256 << 10), byteCount)
      hasher = try await engine.lanes.reads.run { [blocking, hasher] _ in
        var hasher = hasher
        hasher.update(try blocking.read(range).bytes)
        return hasher
      }
    }
    return hasher.finalize()
  }

  /// Reads the next bytes into the system's page cache, and returns their number, which is 0 at the end.
  ///
  /// - Throws: The errors of `read`; `damaged` with the last bytes of a whole payload whose checksum is wrong.
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
      private var walk: BlobPieces?
      private var isOver = false

      init(pieces: Pieces) { self.pieces = pieces }

      /// Returns the next piece, or `nil` at the end and after an error.
      ///
      /// - Throws: The errors of `read`.
      public mutating func next() async throws -> Data? {
        guard !isOver else { return nil }
        // The iteration ends after an error.
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
