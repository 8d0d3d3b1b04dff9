import BlobRecord
import BlobStore
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
