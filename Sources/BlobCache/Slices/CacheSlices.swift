public import BlobRecord
internal import Locks

extension BlobCache {
  /// A large remote object whose ranges are cached as slices: `CacheSlices`.
  ///
  /// Nothing is read, removed or fetched before the first read.
  ///
  /// - Parameters:
  ///   - key: what the slices are found by. Their own keys begin with it and `@slices`, so `records(prefix:)` shows them
  ///     together; an entry under the key itself is another blob.
  ///   - totalSize: bytes of the object.
  ///   - sliceSize: bytes of a slice; the last may have fewer. At most 2^20 slices.
  ///   - validator: tells versions of the object apart, such as an ETag. Slices of another validator or other sizes are
  ///     removed with the first read.
  ///   - options: how slices are fetched and stored.
  ///   - fetch: answers with the bytes of a range, all of them, or throws. It may run several times at once.
  /// - Throws: `invalidConfiguration` for sizes that make no slices, or too many; `closed`.
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

/// Ranges of a large remote object, of which those that are missing are fetched: `BlobCache.slices`.
///
/// Each slice is a blob of its own: evicted, expired and fetched by itself. Slices that are missing side by side are fetched
/// by one call of the closure, and each slice by one call at a time in the process. Slices lie on disk, not in memory. What
/// was read last is kept for the next read.
///
/// Any number of tasks may use it. A read that is cancelled leaves the fetch to other readers; without any, the closure's
/// task is cancelled. What is fetched ahead ends so with the handle, and with a read of it that is cancelled while no other
/// is under way.
public final class CacheSlices: Sendable {
  private struct State {
    /// The slice that was read last.
    var latest: (index: Int64, bytes: Data)?
    /// Slices that were asked for ahead.
    var ahead: Range<Int64> = 0..<0
    /// Reads under way.
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
  /// Bytes of the object.
  public var totalSize: Int64 { object.layout.totalSize }
  public var validator: String { object.layout.validator }

  /// The bytes of a range.
  ///
  /// - Parameter range: offsets in the object, from 0 to `totalSize`.
  /// - Throws: `invalidRange`; what the closure throws; `sizeMismatch` if it answers another number of bytes, of
  ///   which none are stored; a slice's `BlobStoreError`; `CancellationError`; `closed`.
  /// - Complexity: O(*n*) for *n* bytes, and the slices that they lie in.
  public func read(_ range: Range<Int64>) async throws -> Data {
    try check(range)
    var data = Data()
    // More may not be there to be reserved, and then the first fetch says why.
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

  /// The bytes of a range, slice by slice.
  ///
  /// The next are fetched when they are asked for, `requestSize` at the most and `readAhead` ahead of them. So a slow
  /// receiver holds the source back.
  ///
  /// - Parameter range: offsets in the object; nil for all of it.
  public func pieces(of range: Range<Int64>? = nil) -> Pieces { Pieces(slices: self, range: range ?? 0..<totalSize) }

  /// Removes all slices of this version, and the record that says that it is there.
  ///
  /// Fetches that are under way when it is called, in any process, are answered and not stored. Those that begin meanwhile may
  /// be. Slices of a later version stay.
  ///
  /// - Throws: `BlobStoreError`; `CancellationError`, and some slices may be left; `closed`.
  /// - Complexity: O(*n*) for *n* slices that the object has, missing ones too.
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

  /// The first slices of a range, as many as one request fetches, cut to the range.
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

  /// Has the slices behind those that are read fetched, once half of those that were asked for ahead are used up.
  private func readAhead(behind index: Int64) {
    guard options.readAhead > 0 else { return }
    let layout = object.layout
    let count = (Int64(options.readAhead) - 1) / layout.sliceSize + 1
    let end = min(index + count, layout.count)
    let wanted = state.withLock { state -> Range<Int64> in
      let known = state.ahead.lowerBound <= index && index <= state.ahead.upperBound ? state.ahead.upperBound : index
      // The last of them are asked for as soon as they are near.
      guard known < end, (known - index) * 2 <= count || end == layout.count else { return 0..<0 }
      state.ahead = index..<end
      return known..<end
    }
    guard !wanted.isEmpty else { return }
    aheads.start { [object, options, fetch] in
      // A failure shows when they are read.
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
      /// The pieces of the last request, the next one last.
      private var rest: [Data] = []
      private var isOver = false

      init(slices: CacheSlices, range: Range<Int64>) {
        self.slices = slices
        self.range = range
        position = range.lowerBound
      }

      /// - Returns: nil at the end, and after an error.
      /// - Throws: as `CacheSlices.read`.
      public mutating func next() async throws -> Data? {
        if let piece = rest.popLast() { return piece }
        guard !isOver, position < range.upperBound else { return nil }
        // An error is the last.
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

/// How slices are fetched and stored.
public struct SliceOptions: Hashable, Sendable {
  /// The time to live of each slice, rounded up to whole seconds; nil for the default expiration, counted from last
  /// access.
  public var ttl: Duration?
  /// Bytes that one call of the closure is asked for at the most. Below the size of a slice, it is one slice.
  ///
  /// So much is in memory for each call under way.
  public var requestSize = 8 << 20
  /// Bytes behind those that are read which are fetched meanwhile, by four calls at a time; 0 for none.
  public var readAhead = 0
  /// Whether fetched bytes that cannot be stored are answered all the same.
  ///
  /// An event (`writeFailed`) and the log tell of it. If false, the store's error is thrown.
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

/// The tasks that fetch ahead of one handle's reads. They end with the handle.
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
      // Within the lock, so that it is known before it ends.
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
