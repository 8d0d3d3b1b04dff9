internal import BlobRecord
internal import BlobStore
internal import Foundation

/// The operations of a worker on blobs that are read while they are written, with separate keys.
struct StreamWorker {
  let options: RunOptions
  let cache: CacheInHand

  /// The size of the value at the start of each payload.
  private static let valueByteCount = 8

  func perform(_ request: WorkerRequests.Request, _ entry: inout HistoryEntry) throws {
    do {
      switch request.kind {
      case .follow: try follow(request, &entry)
      case .loadStreamed: try load(request, &entry)
      default: try write(request, &entry)
      }
    } catch let error as BlobStoreError {
      guard error.recordError == .recordIsStreamAndBusy || error.recordError == .abandonedStream else { throw error }
      entry.outcome = HistoryEntry.Outcome.notFound.rawValue
    }
  }

  /// Writes a visible blob with pauses. A third of the blobs are discarded, and kills of workers interrupt others.
  private func write(_ request: WorkerRequests.Request, _ entry: inout HistoryEntry) throws {
    let payload = SelfDescribingPayload.bytes(of: entry.stored, key: request.key, isFixed: options.hasFixedPayloads)
    var writer = try cache.store.openWriter(
      for: KeyNames.stream(request.key), expectedSize: request.isVariant ? Int64(payload.count) : nil,
      extendedData: Data(payload.prefix(SelfDescribingPayload.blockByteCount)), visibility: .whileWriting)
    // Discarded before the last piece, so that a discarded blob is never complete.
    try append(payload, pieces: request.isGivenUp ? 4 : 6, isSlow: request.isVariant, to: &writer)
    if request.isGivenUp {
      writer.discard()
      entry.outcome = HistoryEntry.Outcome.givenUp.rawValue
    } else {
      entry.outcome = try commit(writer).rawValue
    }
  }

  /// - Parameters:
  ///   - pieces: The number of the payload's six pieces to write.
  ///   - isSlow: A Boolean value that indicates whether the pauses are long.
  private func append(_ payload: Data, pieces: Int, isSlow: Bool, to writer: inout BlobWriter) throws {
    let size = (payload.count + 5) / 6
    for number in 0..<pieces where number * size < payload.count {
      try writer.append(Data(payload[number * size..<min(number * size + size, payload.count)]))
      if number.isMultiple(of: 3) { TortureClock.sleep(milliseconds: isSlow ? 4 : 1) }
    }
  }

  private func commit(_ writer: consuming BlobWriter) throws -> HistoryEntry.Outcome {
    do {
      try writer.commit()
      return .done
    } catch {
      guard error.code == .superseded else { throw error }
      return .superseded
    }
  }

  private func load(_ request: WorkerRequests.Request, _ entry: inout HistoryEntry) throws {
    let key = KeyNames.stream(request.key)
    var blob = cache.residentBlob(key)
    if blob == nil { blob = try cache.readBlob(key, touching: false) }
    guard let blob else { return entry.outcome = HistoryEntry.Outcome.notFound.rawValue }
    noteWhole(blob.payload, blob.extendedData, request, &entry)
  }

  /// Follows a blob to its end. The bytes before an error must be the beginning of a single payload.
  private func follow(_ request: WorkerRequests.Request, _ entry: inout HistoryEntry) throws {
    let timeout: Duration = request.isVariant ? .microseconds(300) : .seconds(60)
    guard
      let follower = try cache.store.openFollower(
        for: KeyNames.stream(request.key), timeout: timeout, touching: false)
    else { return entry.outcome = HistoryEntry.Outcome.notFound.rawValue }
    var payload = Data()
    do {
      try follower.forEachPiece(pieceSize: 700) { piece in piece.withUnsafeBytes { payload.append(contentsOf: $0) } }
    } catch let error as BlobStoreError {
      let outcome: HistoryEntry.Outcome
      switch error.code {
      // Planted fault: the bytes so far are accepted as the complete payload.
      case .streamBroken where options.plant == .earlyEnd: return noteWhole(payload, nil, request, &entry)
      case .streamBroken: outcome = .broken
      case .streamStalled where request.isVariant: outcome = .stalled
      default: throw error
      }
      return noteBeginning(payload, outcome, request, &entry)
    }
    noteWhole(payload, follower.extendedData, request, &entry)
  }

  private func noteWhole(
    _ payload: Data, _ extendedData: Data?, _ request: WorkerRequests.Request, _ entry: inout HistoryEntry
  ) {
    let value = SelfDescribingPayload.value(of: payload, key: request.key, isFixed: options.hasFixedPayloads)
    entry.loaded = value ?? 0
    let isWhole = value != nil && extendedData == payload.prefix(SelfDescribingPayload.blockByteCount)
    entry.outcome = (isWhole ? HistoryEntry.Outcome.loaded : .mix).rawValue
  }

  private func noteBeginning(
    _ payload: Data, _ outcome: HistoryEntry.Outcome, _ request: WorkerRequests.Request, _ entry: inout HistoryEntry
  ) {
    entry.outcome = outcome.rawValue
    guard payload.count >= Self.valueByteCount else { return }
    let value = payload.withUnsafeBytes { UInt64(littleEndian: $0.loadUnaligned(as: UInt64.self)) }
    let whole = SelfDescribingPayload.bytes(of: value, key: request.key, isFixed: options.hasFixedPayloads)
    if whole.starts(with: payload) { entry.loaded = value } else { entry.outcome = HistoryEntry.Outcome.mix.rawValue }
  }
}
