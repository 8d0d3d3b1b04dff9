package import BlobRecord
package import BlobStore
internal import SystemPackage

extension StoreModel {
  /// Removes expired and damaged records. A collection does nothing else if the size limit is not exceeded.
  mutating func collect(dryRun: Bool) -> BlobStore.CollectionReport {
    var after = self
    var report = BlobStore.CollectionReport(directory: "")
    report.dryRun = dryRun
    for (key, record) in records {
      report.examined += 1
      switch state(of: record) {
      case .expired: report.expired += 1
      case .damaged where record.isAged: report.damaged += 1
      case let state:
        if state == .live || state == .locked, isStampedAhead(record.header) {
          report.stampedAhead += 1
          if !record.isLinked { after.records[key]?.header.updateTime = UInt64(max(now.seconds, 0)) }
        }
        report.bytesAfter += size(of: key)
        report.recordsAfter += 1
        continue
      }
      report.bytesFreed += size(of: key)
      after.records[key] = nil
    }
    report.temporary = Int64(temporary.count)
    report.bytesFreed += temporary.values.reduce(0) { $0 + Int64($1.count) }
    report.bytesAfter += quarantined.values.reduce(0) { $0 + Int64($1.count) }
    let used = Set(after.records.filter { !$0.value.isPacked }.keys.map { BlobKey(after.path(of: $0).subdirectory) })
    report.subdirectories = Int64(subdirectories.subtracting(used).count)
    guard !dryRun else { return report }
    after.temporary = [:]
    after.subdirectories.formIntersection(used)
    self = after
    return report
  }

  /// Performs a collection that may evict, given the remaining records.
  ///
  /// With equal age, the order of eviction is undetermined; with eviction by use, any live record may be evicted first.
  ///
  /// - Parameters:
  ///   - remaining: The paths of the remaining records, packed or not.
  ///   - limit: The maximum number of bytes, or `nil` for no limit.
  /// - Returns: The report for this choice, and the faults of the choice.
  package mutating func collect(
    leaving remaining: Set<BlobKey>, limit: Int64?
  ) -> (BlobStore.CollectionReport, [String]) {
    var report = collect(dryRun: false)
    let evicted = records.filter { !remaining.contains(BlobKey(path(of: $0.key).relative)) }
    let kept = records.filter { evicted[$0.key] == nil }
    var faults: [String] = []
    // Nine tenths of the limit, rounded down, remain.
    let toFree = limit.map { report.bytesAfter > $0 ? report.bytesAfter - ($0 - ($0 + 9) / 10) : 0 } ?? 0
    let freed = evicted.keys.reduce(0) { $0 + size(of: $1) }
    for (key, record) in evicted where state(of: record) != .live {
      faults.append("\(key) was evicted, and is \(state(of: record))")
    }
    let isByAge = configuration.limits.eviction == .oldest
    let newestEvicted = evicted.values.map(stamp(of:)).max() ?? 0
    for (key, record) in kept where state(of: record) == .live {
      if isByAge, stamp(of: record) < newestEvicted {
        faults.append("\(key) was kept, and is older than an evicted one")
      }
      if freed < toFree { faults.append("\(key) was kept, and \(toFree - freed) bytes too few were freed") }
    }
    let last = evicted.filter { !isByAge || stamp(of: $0.value) == newestEvicted }.keys.map { size(of: $0) }.max() ?? 0
    if freed > 0, freed - last >= toFree { faults.append("\(freed) bytes were evicted where \(toFree) had to go") }
    report.evicted = Int64(evicted.count)
    report.bytesFreed += freed
    report.bytesAfter -= freed
    report.recordsAfter -= report.evicted
    records = kept
    return (report, faults)
  }

  /// Returns the time for the order of eviction, which is at most the current time.
  private func stamp(of record: Record) -> UInt64 {
    isStampedAhead(record.header) ? UInt64(max(now.seconds, 0)) : record.header.updateTime
  }
}
