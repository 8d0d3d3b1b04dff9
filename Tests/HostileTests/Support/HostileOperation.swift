import BlobRecord
import BlobStore
import Foundation
import SystemPackage
import Testing

/// The operations of a store, applied to the odd key if they take one.
enum HostileOperation: String, CaseIterable, CustomTestStringConvertible {
  case store, storeLocked, storeKeepingLocks, storeContents
  case load, loadUntouched, loadPrefix, contains, header
  case touch, lock, unlock, unlockForce
  case remove, removeAll, removeLocked, removeUnlocked
  case records, recordsPrefix, usage, usageEstimate, verify, follow
  case collect, collectDryRun, collectToLimit

  var testDescription: String { rawValue }

  /// The result of an operation, as far as a test checks it.
  struct Answer: Sendable {
    var payload: Data?
    var error: BlobStoreError?
  }

  func run(on store: BlobStore) -> Answer {
    do throws(BlobStoreError) {
      return Answer(payload: try answer(of: store))
    } catch {
      return Answer(error: error)
    }
  }

  private func answer(of store: BlobStore) throws(BlobStoreError) -> Data? {
    let key = HostileCache.oddKey
    let payload = Data("a new payload".utf8)
    switch self {
    case .store: try store.store(payload, for: key)
    case .storeLocked: try store.store(payload, for: key, locks: .one)
    case .storeKeepingLocks: try store.store(payload, for: key, locks: .keep)
    case .storeContents: try storeContents(in: store)
    case .load: return try store.load(key)?.payload
    case .loadUntouched: return try store.load(key, touching: false)?.payload
    case .loadPrefix: return try store.load(prefix: "od") { $0.first }?.payload
    case .contains: _ = try store.contains(key)
    case .header: _ = try store.header(for: key)
    case .touch: try store.touch(key)
    case .lock: try store.lock(key)
    case .unlock: try store.unlock(key)
    case .unlockForce: try store.unlock(key, force: true)
    case .remove: try store.remove(key)
    case .removeAll: try store.removeAll(.all)
    case .removeLocked: try store.removeAll(.locked)
    case .removeUnlocked: try store.removeAll(.unlocked)
    case .records: for _ in try store.records() {}
    case .recordsPrefix: for _ in try store.records(prefix: "o") {}
    case .usage: _ = try store.usage()
    case .usageEstimate: _ = try store.usageEstimate()
    case .verify: _ = try store.verify()
    case .follow: _ = try BlobStore.Configuration(following: store.directory)
    case .collect, .collectToLimit: try store.collect()
    case .collectDryRun: try store.collect(BlobStore.CollectionOptions(dryRun: true))
    }
    return nil
  }

  private func storeContents(in store: BlobStore) throws(BlobStoreError) {
    // The null device is an empty input, which is stored like any other.
    guard let input = try? FileDescriptor.open("/dev/null", .readOnly) else { return }
    defer { try? input.close() }
    try store.store(contentsOf: input, for: HostileCache.oddKey)
  }

  /// A Boolean value that indicates whether the operation may remove records of other keys.
  var removesOthers: Bool {
    switch self {
    case .removeAll, .removeUnlocked: true
    default: false
    }
  }

  /// A Boolean value that indicates whether the operation covers the directory, so one odd thing must not fail it.
  var isAboutAll: Bool {
    switch self {
    case .records, .recordsPrefix, .usage, .usageEstimate, .verify, .follow, .collect, .collectDryRun, .collectToLimit:
      true
    default: false
    }
  }

  var isChange: Bool {
    switch self {
    case .store, .storeLocked, .storeKeepingLocks, .storeContents, .touch, .lock, .unlock, .unlockForce, .remove,
      .removeAll, .removeLocked, .removeUnlocked, .collect, .collectToLimit:
      true
    default: false
    }
  }
}
