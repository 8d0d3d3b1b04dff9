import BlobRecord
import BlobStore
import Foundation
import Posix
import SystemPackage
import TestSupport

// The effects that a failing call may have, by the rules of `FaultRun`.

extension StoreModel {
  /// Returns whether a collection may evict this file because of the size limit.
  func mayEvict(_ path: BlobKey, _ operation: StoreOperation) -> Bool {
    guard case .collect(dryRun: false) = operation,
      let record = records.first(where: { BlobKey(self.path(of: $0.key).relative) == path })?.value
    else { return false }
    let byteCount = files.values.reduce(0) { $0 + $1.count }
    return state(of: record) == .live && Int64(byteCount) > configuration.limits.size ?? .max
  }

  /// Returns whether a file is a record whose payload is not complete.
  static func isStream(_ file: Data?) -> Bool {
    guard let start = file?.prefix(RecordHeader.byteCount), let header = try? RecordHeader(decoding: start.bytes) else {
      return false
    }
    return header.flags.contains(.streamIncomplete)
  }

  /// Adopts the state of a path from another model, or the removal by a collection.
  mutating func adopt(_ path: BlobKey, from other: StoreModel, isPresent: Bool) {
    let keys = Set(records.keys).union(other.records.keys)
    for key in keys where BlobKey(self.path(of: key).relative) == path {
      records[key] = isPresent ? other.records[key] : nil
    }
    if path.string.contains(".tmp-") { temporary[path] = other.temporary[path] }
    if path.string.hasPrefix(".quarantine/") { quarantined[path] = other.quarantined[path] }
  }
}

extension StoreOperation {
  /// A Boolean value that indicates whether the blob is visible before it is complete.
  var isVisible: Bool { if case .storeVisibly = self { true } else { false } }

  /// The operation names in errors; a store with a follower can also fail in a read.
  var verbs: [String] { isVisible ? [verb, "load"] : [verb] }
}

extension StoreAnswer {
  /// Returns whether the answer itself reports that an operation or a read failed.
  func admitsFailure(beside expected: StoreAnswer, _ errors: [BlobStoreError], _ isBusy: Bool) -> Bool {
    switch (self, expected) {
    case (.listing(let found), .listing(let complete)):
      let unreadable = found.filter { $0.state == .unreadable }.map(\.file.string)
      return !errors.isEmpty
        && found.allSatisfy { $0.state == .unreadable || complete.contains($0) }
        && complete.allSatisfy { record in
          found.contains(record)
            || unreadable.contains { $0.isEmpty || record.file.string == $0 || record.file.string.hasPrefix($0 + "/") }
        }
    case (.usage(let usage), .usage): return usage.unreadableFiles > 0
    case (.verified(let report), .verified): return report.unreadableFiles > 0 && !errors.isEmpty
    // An unreadable record was removed nevertheless, without knowing its size.
    case (.removed(let report), .removed(let complete)): return report.files == complete.files || isBusy
    // The model predicts removals only within the limit; above it, a single expected state does not exist.
    case (.collected(let report), .collected): return report.failed > 0 || isBusy || report.evicted > 0
    default: return false
    }
  }
}

extension FaultPlan.Call {
  /// Returns whether the call determines the arrangement of a directory without settings.
  func isLook(at root: FilePath) -> Bool {
    [.openDirectory, .listDirectory].contains(kind) && path == root
      || [".blobcache", ".blobcache.used"].contains { path == root.appending($0) }
  }

  /// Returns whether the failure means that another process holds a lock.
  func isBusy(_ errno: Errno) -> Bool {
    // POSIX has two errors for byte locks.
    [.lock, .takeStripe].contains(kind) && errno == .wouldBlock
      || kind == .lockByte && (errno == .wouldBlock || errno == .permissionDenied)
  }
}
