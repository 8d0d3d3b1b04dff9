package import BlobRecord
package import BlobStore
internal import Foundation
internal import SystemPackage

/// An operation as a value, which can be chosen randomly, printed, and performed on a store and a model.
package enum StoreOperation: Sendable {
  case store(BlobKey, Data, ttl: Duration?, locks: BlobStore.LockPolicy)
  /// A store from a descriptor.
  case storeContents(BlobKey, Data, ttl: Duration?, locks: BlobStore.LockPolicy)
  /// A store by a writer in two pieces.
  case storePieces(BlobKey, Data, ttl: Duration?, locks: BlobStore.LockPolicy)
  /// A store by a visible writer in two pieces, with a follower. Small odd sizes are not announced.
  case storeVisibly(BlobKey, Data, ttl: Duration?, locks: BlobStore.LockPolicy)
  /// A store with extended data.
  case storeExtended(BlobKey, Data, extendedData: Data)
  case setExtendedData(BlobKey, Data)
  case extendedData(BlobKey)
  case load(BlobKey, touching: Bool)
  /// A load by a reader.
  case read(BlobKey, touching: Bool)
  /// Loads the first key in the order of bytes.
  case loadFirst(prefix: String)
  case touch(BlobKey)
  case lock(BlobKey)
  case unlock(BlobKey, force: Bool)
  case remove(BlobKey)
  case removeAll(BlobStore.RemovalScope)
  case contains(BlobKey)
  case header(BlobKey)
  case records(prefix: String)
  case usage
  case verify
  case collect(dryRun: Bool)
}

extension StoreOperation: CustomStringConvertible {
  package var description: String {
    func store(
      _ verb: String, _ key: BlobKey, _ payload: Data, _ ttl: Duration?, _ locks: BlobStore.LockPolicy
    )
      -> String
    {
      "\(verb) \(key.string.debugDescription) \(payload.count) bytes, ttl \(ttl.map { "\($0)" } ?? "nil")"
        + (locks == .none ? "" : ", locks: \(locks)")
    }
    return switch self {
    case .store(let key, let payload, let ttl, let locks):
      store("store", key, payload, ttl, locks)
    case .storeContents(let key, let payload, let ttl, let locks):
      store("store contents", key, payload, ttl, locks)
    case .storePieces(let key, let payload, let ttl, let locks):
      store("store pieces", key, payload, ttl, locks)
    case .storeVisibly(let key, let payload, let ttl, let locks):
      store("store visibly", key, payload, ttl, locks)
    case .read(let key, let touching): "read \(key.string.debugDescription)\(touching ? "" : " untouched")"
    case .storeExtended(let key, let payload, let data):
      store("store", key, payload, nil, .none) + ", \(data.count) bytes of extended data"
    case .setExtendedData(let key, let data):
      "set \(data.count) bytes of extended data of \(key.string.debugDescription)"
    case .extendedData(let key): "extended data of \(key.string.debugDescription)"
    case .load(let key, let touching): "load \(key.string.debugDescription)\(touching ? "" : " untouched")"
    case .loadFirst(let prefix): "load first of prefix \(prefix.debugDescription)"
    case .touch(let key): "touch \(key.string.debugDescription)"
    case .lock(let key): "lock \(key.string.debugDescription)"
    case .unlock(let key, let force): "unlock \(key.string.debugDescription)\(force ? " by force" : "")"
    case .remove(let key): "remove \(key.string.debugDescription)"
    case .removeAll(let scope): "remove all: \(scope)"
    case .contains(let key): "contains \(key.string.debugDescription)"
    case .header(let key): "header \(key.string.debugDescription)"
    case .records(let prefix): "records \(prefix.debugDescription)"
    case .usage: "usage"
    case .verify: "verify"
    case .collect(let dryRun): dryRun ? "collect, dry run" : "collect"
    }
  }

  /// The key of the operation, or `nil` if it affects several keys.
  package var key: BlobKey? {
    switch self {
    case .store(let key, _, _, _), .storeContents(let key, _, _, _), .storePieces(let key, _, _, _),
      .storeVisibly(let key, _, _, _), .storeExtended(let key, _, _),
      .setExtendedData(let key, _), .extendedData(let key), .load(let key, _),
      .read(let key, _), .touch(let key), .lock(let key), .unlock(let key, _), .remove(let key), .contains(let key),
      .header(let key):
      key
    case .loadFirst, .records, .removeAll, .usage, .verify, .collect: nil
    }
  }

  /// The name of the operation in errors.
  package var verb: String {
    switch self {
    case .store, .storeContents, .storePieces, .storeVisibly, .storeExtended: "store"
    case .setExtendedData: "setExtendedData"
    case .extendedData: "extendedData"
    case .load, .loadFirst, .read: "load"
    case .touch: "touch"
    case .lock: "lock"
    case .unlock: "unlock"
    case .remove: "remove"
    case .removeAll: "removeAll"
    case .contains: "contains"
    case .header: "header"
    case .records: "records"
    case .usage: "usage"
    case .verify: "verify"
    case .collect: "collect"
    }
  }
}

package enum StoreAnswer: Equatable, Sendable {
  case done
  case size(Int64)
  case outcome(BlobStore.Outcome)
  case blob(BlobKey, Data, RecordHeader, extendedData: Data?)
  case data(Data?)
  case nothing
  case flag(Bool)
  case header(RecordHeader)
  case removed(BlobStore.RemovalReport)
  case listing([ListedRecord])
  case usage(BlobStore.Usage)
  case verified(BlobStore.VerificationReport)
  case collected(BlobStore.CollectionReport)
  case failure(BlobStoreError.Code)
}

/// A record of an enumeration.
package struct ListedRecord: Hashable, Sendable {
  /// The path relative to the root, as a key because keys are compared by their bytes.
  package var file: BlobKey
  package var key: BlobKey?
  package var fileSize: Int64
  package var state: RecordState
  package var header: RecordHeader?
  package var extendedData: Data?

  /// Orders by file and then by key, because packed records share a file.
  package static func precedes(_ a: ListedRecord, _ b: ListedRecord) -> Bool {
    guard a.file == b.file else { return BlobKey.precedes(a.file, b.file) }
    return BlobKey.precedes(a.key ?? "", b.key ?? "")
  }
}

/// An answer and the errors of the operation.
package struct StoreResult: Sendable {
  package var answer: StoreAnswer
  package var error: BlobStoreError?
  /// The errors for files that an enumeration could not read.
  package var accessErrors: [BlobStoreError]

  package init(answer: StoreAnswer, error: BlobStoreError? = nil, accessErrors: [BlobStoreError] = []) {
    self.answer = answer
    self.error = error
    self.accessErrors = accessErrors
  }
}

extension StoreOperation {
  package func perform(on store: BlobStore) -> StoreResult {
    var accessErrors: [BlobStoreError] = []
    do throws(BlobStoreError) {
      let answer = try answer(of: store, &accessErrors)
      return StoreResult(answer: answer, accessErrors: accessErrors)
    } catch {
      return StoreResult(answer: .failure(error.code), error: error)
    }
  }

  private func answer(
    of store: BlobStore, _ accessErrors: inout [BlobStoreError]
  ) throws(BlobStoreError) -> StoreAnswer {
    func answer(_ blob: Blob?) -> StoreAnswer {
      blob.map { .blob($0.key, $0.payload, $0.header, extendedData: $0.extendedData) } ?? .nothing
    }
    switch self {
    case .store(let key, let payload, let ttl, let locks):
      try store.store(payload, for: key, ttl: ttl, locks: locks)
      return .done
    case .storeContents(let key, let payload, let ttl, let locks):
      let input = payload.asInput()
      defer { try? input.close() }  // The input was read or is no longer needed.
      return .size(
        try store.store(contentsOf: input, for: key, ttl: ttl, locks: locks))
    case .storePieces(let key, let payload, let ttl, let locks):
      var writer = try store.openWriter(for: key, ttl: ttl, locks: locks, expectedSize: Int64(payload.count))
      try writer.append(payload.prefix(payload.count / 3))
      try writer.append(payload.dropFirst(payload.count / 3))
      try writer.commit()
      return .done
    case .storeVisibly(let key, let payload, let ttl, let locks):
      // Without an announced size, a payload that is too large would replace the old blob before it is refused.
      let isSaid = payload.count > 1000 || payload.count.isMultiple(of: 2)
      var writer = try store.openWriter(
        for: key, ttl: ttl, locks: locks, expectedSize: isSaid ? Int64(payload.count) : nil, visibility: .whileWriting)
      let follower = try store.openFollower(for: key, touching: false)
      try writer.append(payload.prefix(payload.count / 3))
      try writer.append(payload.dropFirst(payload.count / 3))
      try writer.commit()
      return .data(try follower?.payload())
    case .read(let key, let touching):
      guard let reader = try store.openReader(for: key, touching: touching) else { return .nothing }
      return .blob(reader.key, try reader.read(0..<reader.byteCount), reader.header, extendedData: reader.extendedData)
    case .storeExtended(let key, let payload, let data):
      try store.store(payload, for: key, extendedData: data)
      return .done
    case .setExtendedData(let key, let data): return .outcome(try store.setExtendedData(data, for: key))
    case .extendedData(let key): return .data(try store.extendedData(for: key))
    case .load(let key, let touching): return answer(try store.load(key, touching: touching))
    case .loadFirst(let prefix):
      return answer(try store.load(prefix: prefix) { keys in keys.min(by: BlobKey.precedes) })
    case .touch(let key): return .outcome(try store.touch(key))
    case .lock(let key): return .outcome(try store.lock(key))
    case .unlock(let key, let force): return .outcome(try store.unlock(key, force: force))
    case .remove(let key): return .outcome(try store.remove(key))
    case .removeAll(let scope): return .removed(try store.removeAll(scope))
    case .contains(let key): return .flag(try store.contains(key))
    case .header(let key): return try store.header(for: key).map { .header($0) } ?? .nothing
    case .records(let prefix):
      var listing: [ListedRecord] = []
      for entry in try store.records(prefix: prefix) {
        if let error = entry.accessError { accessErrors.append(error) }
        listing.append(
          ListedRecord(
            file: BlobKey(entry.file), key: entry.key, fileSize: entry.fileSize, state: entry.state,
            header: entry.header, extendedData: entry.extendedData))
      }
      return .listing(listing.sorted(by: ListedRecord.precedes))
    case .usage:
      var usage = try store.usage()
      // The model predicts which records are packed, but not their locations.
      usage.packs = BlobStore.PackUsage()
      // Recycled files are not part of the model.
      usage.bytes -= usage.recycledBytes
      (usage.recycledFiles, usage.recycledBytes) = (0, 0)
      return .usage(usage)
    case .verify:
      let report = try store.verify { finding in
        if case .record(let entry) = finding, let error = entry.accessError { accessErrors.append(error) }
      }
      return .verified(report)
    case .collect(let dryRun):
      var report = try store.collect(BlobStore.CollectionOptions(dryRun: dryRun))
      // These values are not part of the model.
      (report.recycled, report.recycledBytesFreed, report.recycledBytesAfter) = (0, 0, 0)
      report.seconds = 0
      report.directory = ""
      return .collected(report)
    }
  }
}

extension BlobFollower {
  fileprivate func payload() throws(BlobStoreError) -> Data {
    var payload = Data()
    do {
      try forEachPiece { piece in payload.append(unsafe piece.withUnsafeBytes { unsafe Data($0) }) }
    } catch {
      throw BlobStoreError(anything: error, operation: "load", key: key)
    }
    return payload
  }
}

extension BlobKey {
  package static func precedes(_ a: BlobKey, _ b: BlobKey) -> Bool {
    a.string.utf8.lexicographicallyPrecedes(b.string.utf8)
  }
}

extension Data {
  /// Returns a descriptor of an unlinked file with these bytes.
  fileprivate func asInput() -> FileDescriptor {
    let url = FileManager.default.temporaryDirectory.appending(path: "blobcache-input-\(UUID().uuidString)")
    do {
      try write(to: url)
      defer { try? FileManager.default.removeItem(at: url) }  // A remaining temporary file does no harm.
      return try FileDescriptor.open(FilePath(url.path), .readOnly)
    } catch {
      preconditionFailure("the test's input: \(error)")
    }
  }
}
