public import BlobRecord
internal import Locks

extension BlobCache {
  /// Creates a handle to a large remote object whose ranges are cached as slices.
  ///
  /// Nothing is read, removed or fetched before the first read.
  ///
  /// - Parameters:
  ///   - key: The key of the object. The keys of its slices begin with it and `@slices`, so `records(prefix:)` lists
  ///     them together. A record under the key itself is a separate blob.
  ///   - totalSize: The size of the object in bytes.
  ///   - sliceSize: The size of a slice in bytes; the last slice may be smaller. At most 2^20 slices are possible.
  ///   - validator: The version of the object, such as an ETag. The first read removes slices of other versions.
  ///   - options: The options for fetching and storing slices.
  ///   - fetch: A closure that returns all bytes of a range, or throws. It may be called concurrently.
  /// - Throws: `invalidConfiguration` for sizes that result in no slices, or too many; `closed`.
  public func slices(
    of key: BlobKey, totalSize: Int64, sliceSize: Int = 1 << 20, validator: String,
    options: SliceOptions = SliceOptions(), fetch: @escaping @Sendable (Range<Int64>) async throws -> Data
  ) throws -> CacheSlices {
    let engine = try openEngine()
    guard let layout = SliceLayout(key: key, totalSize: totalSize, sliceSize: Int64(sliceSize), validator: validator)
    else {
      throw BlobCacheError(
        .invalidConfiguration,
        "\(totalSize) bytes make no slices of \(sliceSize) bytes, or more than \(SliceLayout.mostSlices)", key: key)
    }
    return CacheSlices(engine, engine.slicedObjects.object(layout, engine), options, fetch)
  }
}

/// A large remote object whose missing ranges are fetched: `BlobCache.slices`.
///
/// Each slice is a separate blob, which is evicted, expires and is fetched individually. Adjacent missing slices are
/// fetched by one call of the closure, and a process fetches each slice only once at a time. Slices are stored on
/// disk, not in memory. The slice that was read last is kept for the next read.
///
/// Any number of tasks may use it concurrently. A cancelled read does not affect other readers of its fetch, but
/// without other readers the closure's task is cancelled. Read-ahead is cancelled when the handle is deallocated, and
/// when the only read of the handle is cancelled.
public final class CacheSlices: Sendable {
  private struct State {
    var latest: (index: Int64, bytes: Data)?
    /// The slices that were requested by read-ahead.
    var ahead: Range<Int64> = 0..<0
    var readers = 0
  }

  private let engine: CacheEngine
  let object: SlicedObject
  private let options: SliceOptions
  private let fetch: @Sendable (Range<Int64>) async throws -> Data
  private let state = Lock(State())
  private let aheads = ReadAheads()

  init(
    _ engine: CacheEngine, _ object: SlicedObject, _ options: SliceOptions,
    _ fetch: @escaping @Sendable (Range<Int64>) async throws -> Data
  ) {
    self.engine = engine
    self.object = object
    self.options = options
    self.fetch = fetch
  }

  public var key: BlobKey { object.layout.key }
  /// The size of the object in bytes.
  public var totalSize: Int64 { object.layout.totalSize }
  public var validator: String { object.layout.validator }

  /// Returns the bytes of a range.
  ///
  /// - Parameter range: The offsets in the object, from 0 to `totalSize`.
  /// - Throws: `invalidRange`; the errors of the closure; `sizeMismatch` if it returns another number of bytes, none
  ///   of which are stored; a slice's `BlobStoreError`; `CancellationError`; `closed`.
  /// - Complexity: O(*n*) for *n* bytes of the slices that contain the range.
  public func read(_ range: Range<Int64>) async throws -> Data {
    try check(range)
    var data = Data()
    // A larger capacity may not be available, and an invalid size is reported by the first fetch.
    data.reserveCapacity(min(range.count, 1 << 30))
    var position = range.lowerBound
    while position < range.upperBound {
      for part in try await window(from: position, to: range.upperBound) {
        data.append(part)
        position += Int64(part.count)
      }
    }
    return data
  }

  /// Returns the bytes of a range, slice by slice.
  ///
  /// Slices are fetched on demand, at most `requestSize` bytes at a time and `readAhead` bytes ahead. So a slow
  /// receiver applies backpressure to the source.
  ///
  /// - Parameter range: The offsets in the object, or `nil` for the whole object.
  public func pieces(of range: Range<Int64>? = nil) -> Pieces { Pieces(slices: self, range: range ?? 0..<totalSize) }

  /// Removes all slices of this version, and the manifest that names this version.
  ///
  /// Fetches of any process that are in progress when it is called are returned but not stored. Fetches that begin
  /// during the call may be stored. Slices of a later version stay.
  ///
  /// - Throws: `BlobStoreError`; `CancellationError`, after which some slices may still exist; `closed`.
  /// - Complexity: O(*n*) for *n* slices of the object, including missing ones.
  public func remove() async throws {
    state.withLock { $0.latest = nil }
    try await object.agreement.removeAll()
  }

  private func check(_ range: Range<Int64>) throws(BlobCacheError) {
    guard range.lowerBound >= 0, range.upperBound <= totalSize else {
      throw BlobCacheError(
        .invalidRange, "the bytes \(range) do not lie within an object of \(totalSize) bytes", key: key)
    }
  }

  private func window(from position: Int64, to end: Int64) async throws -> [Data] {
    state.withLock { $0.readers += 1 }
    do {
      let slices = try await windowNow(from: position, to: end)
      state.withLock { $0.readers -= 1 }
      return slices
    } catch {
      let isLast = state.withLock { state in
        state.readers -= 1
        guard state.readers == 0, Task.isCancelled else { return false }
        state.ahead = 0..<0
        return true
      }
      if isLast { aheads.cancel() }
      throw error
    }
  }

  private func windowNow(from position: Int64, to end: Int64) async throws -> [Data] {
    let layout = object.layout
    let wanted = layout.slices(of: position..<end)
    let indices = wanted.lowerBound..<min(wanted.upperBound, wanted.lowerBound + object.most(options))
    readAhead(behind: indices.upperBound)
    let slices: [Data]
    if indices.count == 1, let latest = state.withLock({ $0.latest }), latest.index == indices.lowerBound {
      slices = [latest.bytes]
    } else {
      slices = try await object.slices(indices, options, fetch)
      if let last = slices.last { state.withLock { $0.latest = (indices.upperBound - 1, last) } }
    }
    return zip(indices, slices).map { index, bytes in
      let whole = layout.range(ofSlices: index..<index + 1)
      let part = whole.clamped(to: position..<end)
      if part == whole { return bytes }
      let start = bytes.startIndex + Int(part.lowerBound - whole.lowerBound)
      return bytes.subdata(in: start..<start + part.count)
    }
  }

  /// Starts the next read-ahead once half of the previous one is used.
  private func readAhead(behind index: Int64) {
    guard options.readAhead > 0 else { return }
    let layout = object.layout
    let count = (Int64(options.readAhead) - 1) / layout.sliceSize + 1
    let end = min(index + count, layout.count)
    let wanted = state.withLock { state -> Range<Int64> in
      let known = state.ahead.lowerBound <= index && index <= state.ahead.upperBound ? state.ahead.upperBound : index
      // The last slices are requested as soon as they are in the read-ahead range.
      guard known < end, (known - index) * 2 <= count || end == layout.count else { return 0..<0 }
      state.ahead = index..<end
      return known..<end
    }
    guard !wanted.isEmpty else { return }
    aheads.start { [object, options, fetch] in
      // An error is reported when the slices are read.
      try? await object.readAhead(wanted, options, fetch)
    }
  }
}

extension CacheSlices {
  /// The bytes of a range, slice by slice.
  public struct Pieces: AsyncSequence, Sendable {
    let slices: CacheSlices
    let range: Range<Int64>

    public func makeAsyncIterator() -> Iterator { Iterator(slices: slices, range: range) }

    public struct Iterator: AsyncIteratorProtocol {
      private let slices: CacheSlices
      private let range: Range<Int64>
      private var position: Int64
      /// The pieces of the last request in reverse order.
      private var rest: [Data] = []
      private var isOver = false

      init(slices: CacheSlices, range: Range<Int64>) {
        self.slices = slices
        self.range = range
        position = range.lowerBound
      }

      /// Returns the next piece, or `nil` at the end and after an error.
      ///
      /// - Throws: The errors of `CacheSlices.read`.
      public mutating func next() async throws -> Data? {
        if let piece = rest.popLast() { return piece }
        guard !isOver, position < range.upperBound else { return nil }
        // The iteration ends after an error.
        isOver = true
        try slices.check(range)
        rest = try await slices.window(from: position, to: range.upperBound).reversed()
        position += Int64(rest.reduce(0) { $0 + $1.count })
        isOver = false
        return rest.popLast()
      }
    }
  }
}

/// The options for fetching and storing slices.
public struct SliceOptions: Hashable, Sendable {
  /// The time to live of each slice, rounded up to seconds, or `nil` for the default expiration from the last access.
  public var ttl: Duration?
  /// The maximum number of bytes that one call of the closure is asked for, but at least one slice.
  ///
  /// Each call in progress holds this much memory.
  public var requestSize = 8 << 20
  /// The number of bytes that are fetched ahead of a read, by at most four concurrent calls, or 0 for no read-ahead.
  public var readAhead = 0
  /// A Boolean value that indicates whether fetched bytes are returned even if they cannot be stored.
  ///
  /// An event (`writeFailed`) and the log report the error. If `false`, the store's error is thrown.
  public var answersUnstored = false

  public init(
    ttl: Duration? = nil, requestSize: Int = 8 << 20, readAhead: Int = 0, answersUnstored: Bool = false
  ) {
    self.ttl = ttl
    self.requestSize = requestSize
    self.readAhead = readAhead
    self.answersUnstored = answersUnstored
  }
}

/// The read-ahead tasks of one handle, which are cancelled with it.
final class ReadAheads: Sendable {
  private struct State {
    var tasks: [Int: Task<Void, Never>] = [:]
    var nextNumber = 0
  }

  private let state = Lock(State())

  deinit { cancel() }

  func start(_ body: @escaping @Sendable () async -> Void) {
    state.withLock { state in
      let number = state.nextNumber
      state.nextNumber += 1
      // The task is started within the lock, so that it is registered before it ends.
      state.tasks[number] = Task { [weak self] in
        await body()
        self?.forget(number)
      }
    }
  }

  func cancel() {
    let tasks = state.withLock { state in
      defer { state.tasks = [:] }
      return state.tasks
    }
    for task in tasks.values { task.cancel() }
  }

  private func forget(_ number: Int) { state.withLock { $0.tasks[number] = nil } }
}
