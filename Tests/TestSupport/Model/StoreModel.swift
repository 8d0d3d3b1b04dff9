package import BlobRecord
package import BlobStore
internal import Foundation

/// A model of a directory by the rules of Spec/Semantics.md, implemented with a dictionary.
///
/// Files are predicted byte for byte, so that a comparison with the directory is complete. For packs, only the set of
/// packed records is predicted.
package struct StoreModel: Sendable {
  package enum Damage: Sendable {
    /// The checksum of the header is wrong, so its fields cannot be trusted.
    case header
    /// A byte of the payload is wrong, which only a read of the payload detects.
    case payload
  }

  package struct Record: Equatable, Sendable {
    package var payload: Data
    /// The bytes after the payload.
    package var tail = Data()
    package var header: RecordHeader
    package var damage: Damage?
    /// A Boolean value that indicates whether the file is old enough for a collection to remove damage.
    package var isAged = false
    /// A Boolean value that indicates whether the file has a second link, so that changes copy it.
    package var isLinked = false
    package var isPacked = false

    package init(payload: Data, header: RecordHeader) {
      self.payload = payload
      self.header = header
    }
  }

  package var configuration: BlobStore.Configuration
  package var now: UnixTime
  package var records: [BlobKey: Record] = [:]
  /// Files that do not belong to the store, by path.
  package var foreign: [BlobKey: Data] = [:]
  /// Temporary files without a writer, by path.
  package var temporary: [BlobKey: Data] = [:]
  package var quarantined: [BlobKey: Data] = [:]
  /// Subdirectories that the store has created.
  package var subdirectories: Set<BlobKey> = []

  package init(_ configuration: BlobStore.Configuration, now: UnixTime) {
    self.configuration = configuration
    self.now = now
  }

  package var defaultExpiration: Int64 {
    max(configuration.expiry.defaultTimeToLive, BlobStore.Configuration.Expiry.minimumDefault).components.seconds
  }
}

// MARK: - The directory

extension StoreModel {
  package static let headerSize: Int64 = 64

  /// The layout of records in a new directory whose arrangement the store itself decides.
  package var layout: RecordLayout {
    RecordLayout(naming: configuration.layout.naming, arrangement: configuration.arrangementOfNewDirectories)
  }

  /// Returns the path of a valid key.
  package func path(of key: BlobKey) -> RecordPath {
    do {
      let path = try layout.path(for: key)
      // A model contains too few records for the other subdirectories.
      return layout.arrangement == .adaptive ? path.placed(isNarrow: true) : path
    } catch {
      preconditionFailure("the model holds a key without a name: \(key)")
    }
  }

  package func isValid(_ key: BlobKey) -> Bool {
    guard let path = try? layout.path(for: key) else { return false }  // The error does not matter.
    // A key that must be stored in the record is refused if the format does not support it.
    return configuration.format == .checksummed || configuration.layout.naming != .encoded
      || !path.fileName.contains("%~")
  }

  package static func bytes(of record: Record) -> Data {
    var bytes =
      record.header.withEncodedBytes { unsafe $0.withUnsafeBytes { unsafe Data($0) } } + record.payload
      + record.tail
    switch record.damage {
    case .header: bytes[60] ^= 1
    case .payload: bytes[64] ^= 1
    case nil: break
    }
    return bytes
  }

  /// The complete set of files below the root, except for packs.
  package var files: [BlobKey: Data] {
    var files: [BlobKey: Data] = [:]
    for (key, record) in records where !record.isPacked {
      files[BlobKey(path(of: key).relative)] = Self.bytes(of: record)
    }
    for others in [foreign, temporary, quarantined] { files.merge(others) { a, _ in a } }
    return files
  }

  package func state(of record: Record) -> RecordState {
    if record.damage == .header { return .damaged }
    if record.header.refCount > 0 { return .locked }
    return isExpired(record.header) ? .expired : .live
  }

  private func isExpired(_ header: RecordHeader) -> Bool {
    // Implemented independently of the code under test, with a wider type.
    let ttl = header.ttl > 0 ? Int128(min(header.ttl, UInt64(Int64.max))) : Int128(defaultExpiration)
    return Int128(now.seconds) - Int128(header.updateTime) > ttl
  }

  func isStampedAhead(_ header: RecordHeader) -> Bool {
    Int128(min(header.updateTime, UInt64(Int64.max))) - Int128(now.seconds) > 86_400
  }

  private static func size(of record: Record) -> Int64 { headerSize + Int64(record.payload.count + record.tail.count) }

  func size(of key: BlobKey) -> Int64 { records[key].map(Self.size) ?? 0 }
}

// MARK: - Operations

extension StoreModel {
  /// Performs an operation and returns its answer; collections with a limit use `collect(leaving:limit:)`.
  package mutating func perform(_ operation: StoreOperation) -> StoreAnswer {
    if let key = operation.key, let refusal = refusal(operation, key) { return .failure(refusal) }
    switch operation {
    case .store(let key, let payload, let ttl, let locks):
      store(key, payload, ttl, locks)
      return .done
    case .storePieces(let key, let payload, let ttl, let locks):
      store(key, payload, ttl, locks)
      return .done
    case .storeVisibly(let key, let payload, let ttl, let locks):
      store(key, payload, ttl, locks, mayPack: false)
      return .data(payload)
    case .storeContents(let key, let payload, let ttl, let locks):
      store(key, payload, ttl, locks)
      return .size(Int64(payload.count))
    case .storeExtended(let key, let payload, let data):
      store(key, payload, nil, .none, data)
      return .done
    case .setExtendedData(let key, let data): return setExtendedData(data, key)
    case .extendedData(let key): return reading(key) { .data($0.flatMap(Self.extendedData)) }
    case .load(let key, let touching), .read(let key, let touching): return load(key, touching: touching)
    case .loadFirst(let prefix):
      guard isValidPrefix(prefix) else { return .failure(.invalidKey) }
      let keys = records.filter {
        isTold($0.key, $0.value) && $0.key.hasPrefix(prefix) && [.live, .locked].contains(state(of: $0.value))
      }.keys
      return keys.min(by: BlobKey.precedes).map { load($0, touching: true) } ?? .nothing
    case .touch(let key):
      return changing(key) { header, now in
        if header.ttl == 0 { header.updateTime = UInt64(max(now.seconds, 0)) }
        return .done
      }
    case .lock(let key):
      return changing(key) { header, _ in
        header.refCount += 1
        return .done
      }
    case .unlock(let key, let force):
      return changing(key) { header, _ in
        guard header.refCount > 0 else { return .notLocked }
        header.refCount = force ? 0 : header.refCount - 1
        return .done
      }
    case .remove(let key): return .outcome(records.removeValue(forKey: key) == nil ? .notFound : .done)
    case .removeAll(let scope): return removeAll(scope)
    case .contains(let key): return reading(key) { .flag($0 != nil) }
    case .header(let key): return reading(key) { $0.map { .header($0.header) } ?? .nothing }
    case .records(let prefix): return isValidPrefix(prefix) ? .listing(listing(prefix)) : .failure(.invalidKey)
    case .usage: return .usage(usage)
    case .verify: return .verified(verification)
    case .collect(let dryRun): return .collected(collect(dryRun: dryRun))
    }
  }

  /// Returns the error for an invalid operation, regardless of the content of the directory.
  private func refusal(_ operation: StoreOperation, _ key: BlobKey) -> BlobStoreError.Code? {
    switch operation {
    case .store(_, let payload, let ttl, _), .storeContents(_, let payload, let ttl, _),
      .storePieces(_, let payload, let ttl, _), .storeVisibly(_, let payload, let ttl, _):
      let byteCount = Int64(payload.count)
      if byteCount > configuration.limits.payload { return .payloadTooLarge }
      if let limit = configuration.limits.size, byteCount + Self.headerSize > limit { return .payloadTooLarge }
      if let ttl, ttl <= .zero { return .invalidTimeToLive }
    case .storeExtended(_, let payload, let data):
      let plain = StoreOperation.store(key, payload, ttl: nil, locks: .none)
      return refusal(plain, key) ?? refusal(ofExtendedData: data)
    case .setExtendedData(_, let data):
      if let code = refusal(ofExtendedData: data) { return code }
    default: break
    }
    return isValid(key) ? nil : .invalidKey
  }

  private func isValidPrefix(_ prefix: String) -> Bool {
    switch configuration.layout.naming {
    case .encoded: true
    case .verbatim: prefix.isEmpty || isValid(BlobKey(prefix))
    case .sha256: prefix.isEmpty || configuration.format == .checksummed
    }
  }

  private mutating func store(
    _ key: BlobKey, _ payload: Data, _ ttl: Duration?, _ locks: BlobStore.LockPolicy, _ extendedData: Data = Data(),
    mayPack: Bool = true
  ) {
    var header = RecordHeader(
      refCount: [.one, .keepOrOne].contains(locks) ? 1 : 0, updateTime: UInt64(max(now.seconds, 0)),
      payloadSize: UInt64(payload.count))
    if let (seconds, rest) = ttl?.components { header.ttl = UInt64(seconds) + (rest > 0 && seconds < .max ? 1 : 0) }
    if [.keep, .keepOrOne].contains(locks), let old = records[key], old.damage != .header {
      header.refCount = max(header.refCount, old.header.refCount)
    }
    let path = path(of: key)
    if configuration.format == .checksummed {
      header.payloadChecksum = CRC32.checksum(of: payload.bytes)
      header.keyDigest = path.digest
    }
    let tail = keepsKey(key) || !extendedData.isEmpty ? Self.tail(keepsKey(key) ? key : nil, extendedData) : Data()
    if !tail.isEmpty { header.extensionEnd = UInt32(tail.count) }
    records[key] = Record(payload: payload, header: header)
    records[key]?.tail = tail
    let isPacked = mayPack && isPacked(path.fileName.utf8.count + payload.count + tail.count)
    records[key]?.isPacked = isPacked
    if !isPacked { makeSubdirectory(of: key) }
  }

  /// Returns whether a store packs a record with this number of bytes after its header.
  private func isPacked(_ byteCount: Int) -> Bool {
    guard configuration.format == .checksummed, configuration.layout.naming != .verbatim else { return false }
    guard case .upTo(let largest) = configuration.packing else { return false }
    return 40 + byteCount <= largest
  }

  private mutating func makeSubdirectory(of key: BlobKey) {
    let subdirectory = path(of: key).subdirectory
    if !subdirectory.isEmpty { subdirectories.insert(BlobKey(subdirectory)) }
  }

  private mutating func load(_ key: BlobKey, touching: Bool) -> StoreAnswer {
    guard let record = records[key] else { return .nothing }
    let isMiss = record.damage != .header && state(of: record) == .expired
    guard !isMiss else { return .nothing }
    guard record.damage == nil else {
      followDamagePolicy(key, record)
      return .failure(.damaged)
    }
    if touching, !record.isLinked, record.header.ttl == 0, Int128(record.header.updateTime) < Int128(now.seconds) {
      records[key]?.header.updateTime = UInt64(now.seconds)
    }
    return .blob(key, record.payload, record.header, extendedData: Self.extendedData(of: record))
  }

  private mutating func followDamagePolicy(_ key: BlobKey, _ record: Record) {
    guard configuration.damagePolicy != .report else { return }
    records[key] = nil
    guard configuration.damagePolicy == .quarantine else { return }
    quarantined[BlobKey(".quarantine/" + path(of: key).fileName)] = Self.bytes(of: record)
  }

  private mutating func changing(
    _ key: BlobKey, _ change: (inout RecordHeader, UnixTime) -> BlobStore.Outcome
  ) -> StoreAnswer {
    guard var record = records[key] else { return .outcome(.notFound) }
    switch state(of: record) {
    case .damaged, .streaming, .unreadable: return .failure(.damaged)
    case .expired: return .outcome(.notFound)
    case .live, .locked:
      let before = record.header
      let outcome = change(&record.header, now)
      if record.header != before { record.isLinked = false }
      records[key] = record
      return .outcome(outcome)
    }
  }

  private mutating func reading(_ key: BlobKey, _ answer: (Record?) -> StoreAnswer) -> StoreAnswer {
    guard let record = records[key] else { return answer(nil) }
    switch state(of: record) {
    case .damaged, .streaming, .unreadable:
      followDamagePolicy(key, record)
      return .failure(.damaged)
    case .expired: return answer(nil)
    case .live, .locked: return answer(record)
    }
  }

  private mutating func removeAll(_ scope: BlobStore.RemovalScope) -> StoreAnswer {
    if scope == .all, !records.isEmpty, records.values.allSatisfy({ $0.damage == .header }) {
      return .failure(.notACache)
    }
    var report = BlobStore.RemovalReport()
    for (key, record) in records {
      let isIncluded =
        switch scope {
        case .all: true
        case .locked: state(of: record) == .locked
        case .unlocked: state(of: record) == .live || state(of: record) == .expired
        }
      guard isIncluded else { continue }
      records[key] = nil
      report.files += 1
      report.bytes += Self.size(of: record)
    }
    guard scope == .all else { return .removed(report) }
    for bytes in Array(temporary.values) + Array(quarantined.values) {
      report.files += 1
      report.bytes += Int64(bytes.count)
    }
    temporary = [:]
    quarantined = [:]
    subdirectories = []
    return .removed(report)
  }
}

// MARK: - Enumerations

extension StoreModel {
  private func listing(_ prefix: String) -> [ListedRecord] {
    records.filter { prefix.isEmpty || isTold($0.key, $0.value) && $0.key.hasPrefix(prefix) }.map { key, record in
      ListedRecord(
        file: record.isPacked ? ".packs/p-0" : BlobKey(path(of: key).relative), key: isTold(key, record) ? key : nil,
        fileSize: Self.size(of: record), state: state(of: record),
        header: record.damage == .header ? nil : record.header,
        extendedData: record.damage == .header ? nil : Self.extendedData(of: record))
    }.sorted(by: ListedRecord.precedes)
  }

  private var usage: BlobStore.Usage {
    var usage = BlobStore.Usage()
    for record in records.values {
      let size = Self.size(of: record)
      usage.bytes += size
      if record.damage == .header {
        usage.damagedFiles += 1
        usage.damagedBytes += size
        continue
      }
      usage.records += 1
      if record.isPacked {
        usage.packedRecords += 1
        usage.packedBytes += size
      }
      if state(of: record) == .locked {
        usage.lockedRecords += 1
        usage.lockedBytes += size
      } else if state(of: record) == .expired {
        usage.expiredRecords += 1
        usage.expiredBytes += size
      }
    }
    usage.quarantinedFiles = Int64(quarantined.count)
    usage.quarantinedBytes = quarantined.values.reduce(0) { $0 + Int64($1.count) }
    usage.bytes += usage.quarantinedBytes
    usage.temporaryFiles = Int64(temporary.count)
    usage.temporaryBytes = temporary.values.reduce(0) { $0 + Int64($1.count) }
    usage.foreignFiles = Int64(foreign.count)
    return usage
  }

  private var verification: BlobStore.VerificationReport {
    var report = BlobStore.VerificationReport()
    for record in records.values {
      report.bytes += Self.size(of: record)
      if record.damage == nil { report.soundRecords += 1 } else { report.damagedFiles += 1 }
      if record.damage == nil, isStampedAhead(record.header) { report.stampedAhead += 1 }
    }
    report.temporaryFiles = Int64(temporary.count)
    report.foreignFiles = Int64(foreign.count)
    return report
  }
}
