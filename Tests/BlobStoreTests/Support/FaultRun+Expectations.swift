import BlobRecord
import BlobStore
import Foundation
import Posix
import SystemPackage
import TestSupport

// What a failing call may leave undone, by the rules of `FaultRun`.

extension StoreModel {
  /// Whether a collection may take this file for the size limit.
  func mayEvict(_ path: BlobKey, _ operation: StoreOperation) -> Bool {
    guard case .collect(dryRun: false) = operation,
      let record = records.first(where: { BlobKey(self.path(of: $0.key).relative) == path })?.value
    else { return false }
    let byteCount = files.values.reduce(0) { $0 + $1.count }
    return state(of: record) == .live && Int64(byteCount) > configuration.limits.size ?? .max
  }

  /// Whether a file is a record whose payload is not complete.
  static func isStream(_ file: Data?) -> Bool {
    guard let start = file?.prefix(RecordHeader.byteCount), let header = try? RecordHeader(decoding: start.bytes) else {
      return false
    }
    return header.flags.contains(.streamIncomplete)
  }

  /// Takes over what another model, or a collection, has made of a path.
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
  /// Whether it puts its blob in its place before that is whole.
  var isVisible: Bool { if case .storeVisibly = self { true } else { false } }

  /// What its errors may call it: a store that is followed is read, too.
  var verbs: [String] { isVisible ? [verb, "load"] : [verb] }
}

extension StoreAnswer {
  /// Whether the answer itself says that something could not be done or read.
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
    // What could not be read was removed all the same, and its size never known.
    case (.removed(let report), .removed(let complete)): return report.files == complete.files || isBusy
    // Within a limit it is told what goes; beyond it, the model of a single state cannot tell.
    case (.collected(let report), .collected): return report.failed > 0 || isBusy || report.evicted > 0
    default: return false
    }
  }
}

extension FaultPlan.Call {
  /// Whether the call is one of those that tell how a directory is arranged, where its settings do not.
  func isLook(at root: FilePath) -> Bool {
    [.openDirectory, .listDirectory].contains(kind) && path == root || path == root.appending(".blobcache")
  }

  /// Whether the call is a lock that another process had, as far as this error tells.
  func isBusy(_ errno: Errno) -> Bool {
    // POSIX has two errors for bytes.
    [.lock, .takeStripe].contains(kind) && errno == .wouldBlock
      || kind == .lockByte && (errno == .wouldBlock || errno == .permissionDenied)
  }
}
