internal import BlobRecord
internal import BlobStore
internal import Foundation
internal import SystemPackage

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#elseif canImport(Android)
  internal import Android
#endif

/// The faulty operations of a plant, which access the record files directly.
final class PlantedFaults: Sendable {
  private let plant: Plant
  private let cache: String
  private let defaultTTL = Int64(RunOptions.defaultTTL)
  private let clock: TortureClock
  /// The control file at the start of the worker.
  private let control: CInt
  private let session: StripeSession?
  private let memory = UnguardedMemory()

  init(_ plant: Plant, cache: String, clock: TortureClock) {
    self.plant = plant
    self.cache = cache
    self.clock = clock
    control = open(cache + "/.blobcache", O_RDWR | O_CLOEXEC)
    session = plant == .staleControlFile ? StripeSession(in: control) : nil
  }

  /// Misuses memory if the plant is such a fault, which no history shows.
  func misuseMemory() {
    switch plant {
    case .race: memory.count()
    case .overflow: memory.readBeyondTheEnd()
    default: break
    }
  }

  /// Changes the lock count by one, up or down.
  ///
  /// - Returns: The outcome, or `nil` if this plant uses the store's implementation.
  func changeLocks(of key: BlobKey, by step: Int) throws -> BlobStore.Outcome? {
    switch plant {
    case .unlockedHeader:
      return try withRecord(key) { file, _ in try change(file, header(of: file), by: step, slowly: true) }
    case .staleHeader:
      return try withRecord(key) { file, digest in
        let header = try header(of: file)
        sched_yield()
        let control = open(cache + "/.blobcache", O_RDWR | O_CLOEXEC)
        defer { close(control) }
        return try withHeldStripe(of: digest, StripeSession(in: control)) {
          try change(file, header, by: step, slowly: false)
        }
      }
    case .staleControlFile:
      guard let path = try? RecordLayout(arrangement: .spread).path(for: key) else { return nil }
      return try withHeldStripe(of: path.digest, session) {
        try withRecord(key) { file, _ in try change(file, header(of: file), by: step, slowly: true) }
      }
    case .inPlace, .blindMemory, .blindCollector, .earlyEnd, .race, .overflow:
      return nil
    }
  }

  /// Overwrites an existing record in place.
  ///
  /// - Returns: The outcome, or `nil` if this plant uses the store's implementation or the record does not exist.
  func store(_ payload: Data, for key: BlobKey, ttl: UInt32) throws -> BlobStore.Outcome? {
    guard plant == .inPlace else { return nil }
    let outcome = try withRecord(key) { file, _ in
      guard try header(of: file).payloadSize == UInt64(payload.count) else { return .notFound }
      let half = payload.count / 2
      try write(payload.prefix(half), to: file, at: RecordHeader.byteCount)
      sched_yield()
      try write(payload.suffix(from: half), to: file, at: RecordHeader.byteCount + half)
      let new = RecordHeader(
        ttl: UInt64(ttl), updateTime: UInt64(clock.now.seconds), payloadSize: UInt64(payload.count))
      try write(new, to: file)
      return .done
    }
    return outcome == .done ? .done : nil
  }

  /// Removes expired records.
  ///
  /// - Returns: The report, or `nil` if this plant uses the store's implementation.
  func collect(_ keys: [BlobKey]) throws -> BlobStore.CollectionReport? {
    guard plant == .blindCollector else { return nil }
    var report = BlobStore.CollectionReport(directory: FilePath(cache))
    for key in keys {
      let found = try withRecord(key) { file, _ in
        try header(of: file).isLive(at: clock.now, defaultExpiration: defaultTTL) ? .notFound : .done
      }
      guard found == .done else { continue }
      usleep(500)
      if unlink(cache + "/" + (try RecordLayout(arrangement: .spread).path(for: key).relative)) == 0 {
        report.expired += 1
      }
    }
    return report
  }
}

extension PlantedFaults {
  private func withRecord(
    _ key: BlobKey, _ body: (CInt, UInt64) throws -> BlobStore.Outcome
  ) throws -> BlobStore.Outcome {
    let path = try RecordLayout(arrangement: .spread).path(for: key)
    let file = open(cache + "/" + path.relative, O_RDWR | O_CLOEXEC)
    guard file >= 0 else { return .notFound }
    defer { close(file) }
    return try body(file, path.digest)
  }

  private func header(of file: CInt) throws -> RecordHeader {
    var bytes = [UInt8](repeating: 0, count: RecordHeader.byteCount)
    guard pread(file, &bytes, bytes.count, 0) == bytes.count else { throw TortureFailure("no header") }
    return try RecordHeader(decoding: bytes.span.bytes)
  }

  private func change(_ file: CInt, _ header: RecordHeader, by step: Int, slowly: Bool) throws -> BlobStore.Outcome {
    guard header.isLive(at: clock.now, defaultExpiration: defaultTTL) else { return .notFound }
    guard step > 0 || header.isLocked else { return .notLocked }
    var header = header
    header.refCount = UInt32(Int(header.refCount) + step)
    if slowly { sched_yield() }
    try write(header, to: file)
    return .done
  }

  private func write(_ header: RecordHeader, to file: CInt) throws {
    let bytes = header.withEncodedBytes { bytes in bytes.withUnsafeBytes { Data($0) } }
    try write(bytes, to: file, at: 0)
  }

  private func write(_ bytes: Data, to file: CInt, at offset: Int) throws {
    let count = bytes.withUnsafeBytes { pwrite(file, $0.baseAddress, $0.count, off_t(offset)) }
    guard count == bytes.count else { throw TortureFailure("pwrite: errno \(errno)") }
  }

  /// Acquires a stripe with a session, without any other check.
  private func withHeldStripe<Result>(
    of digest: UInt64, _ session: StripeSession?, _ body: () throws -> Result
  ) throws -> Result {
    guard let session else { throw TortureFailure("no control file") }
    let stripe = ControlLayout.stripe(of: digest)
    while !session.tryLock(stripe) { usleep(50) }
    defer { session.unlock(stripe) }
    return try body()
  }
}
