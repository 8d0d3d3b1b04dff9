internal import BlobRecord
internal import Posix
internal import Synchronization

extension ControlFile {
  /// The statistics in the file. A count below zero becomes zero.
  var statistics: BlobStore.CollectionStatistics {
    var statistics = BlobStore.CollectionStatistics()
    guard isMapped else { return statistics }
    func count(_ offset: Int) -> Int64 { max(0, word(at: offset)) }
    statistics.passes = count(ControlLayout.passesOffset)
    statistics.evictions = count(ControlLayout.evictionsOffset)
    statistics.expired = count(ControlLayout.expiredOffset)
    statistics.evicted = count(ControlLayout.evictedOffset)
    statistics.evictedForSizeLimit = count(ControlLayout.evictedForOffsets[EvictionCause.sizeLimit.rawValue])
    statistics.evictedForCountLimit = count(ControlLayout.evictedForOffsets[EvictionCause.countLimit.rawValue])
    statistics.evictedForFreeSpace = count(ControlLayout.evictedForOffsets[EvictionCause.freeSpace.rawValue])
    statistics.evictedByTrims = count(ControlLayout.evictedForOffsets[EvictionCause.trim.rawValue])
    let aged = count(ControlLayout.evictedAgedOffset)
    statistics.meanEvictedAge = aged > 0 ? count(ControlLayout.evictedAgeOffset) / aged : nil
    statistics.damaged = count(ControlLayout.damagedOffset)
    statistics.temporary = count(ControlLayout.temporaryOffset)
    statistics.bytesFreed = count(ControlLayout.bytesFreedOffset)
    statistics.seconds = Double(count(ControlLayout.millisecondsOffset)) / 1000
    let time = word(at: ControlLayout.lastPassTimeOffset)
    if time > 0 {
      statistics.lastPass = BlobStore.CollectionStatistics.Pass(
        time: UnixTime(seconds: time), process: Int32(clamping: count(ControlLayout.lastPassProcessOffset)),
        seconds: Double(count(ControlLayout.lastPassMillisecondsOffset)) / 1000)
    }
    return statistics
  }

  /// Adds a collection. The caller holds the collector's lock. Evictions need none: others may add to the sums at once.
  func record(
    _ report: BlobStore.CollectionReport, _ evictions: EvictionSums, _ kind: CollectionKind, at now: UnixTime
  ) {
    guard isMapped else { return }
    func add(_ value: Int64, at offset: Int) {
      guard value != 0 else { return }
      counter(offset) { sum in
        var (isDone, before) = (false, sum.load(ordering: .relaxed))
        while !isDone {
          (isDone, before) = sum.weakCompareExchange(
            expected: before, desired: max(0, before).saturatingAdding(value), ordering: .relaxed)
        }
      }
    }
    let milliseconds = Int64(report.seconds * 1000)
    switch kind {
    case .whole: if !report.wasStopped { add(1, at: ControlLayout.passesOffset) }
    case .eviction: add(1, at: ControlLayout.evictionsOffset)
    case .lookAhead: break
    }
    add(report.expired, at: ControlLayout.expiredOffset)
    add(report.evicted, at: ControlLayout.evictedOffset)
    for (offset, count) in zip(ControlLayout.evictedForOffsets, evictions.counts) { add(count, at: offset) }
    add(evictions.age, at: ControlLayout.evictedAgeOffset)
    add(evictions.aged, at: ControlLayout.evictedAgedOffset)
    add(report.damaged, at: ControlLayout.damagedOffset)
    add(report.temporary, at: ControlLayout.temporaryOffset)
    add(report.bytesFreed, at: ControlLayout.bytesFreedOffset)
    add(milliseconds, at: ControlLayout.millisecondsOffset)
    // A stopped pass is not done: the next one must not be skipped for it.
    guard kind == .whole, !report.wasStopped else { return }
    setWord(Int64(CurrentProcess.identifier), at: ControlLayout.lastPassProcessOffset)
    setWord(milliseconds, at: ControlLayout.lastPassMillisecondsOffset)
    setWord(now.seconds, at: ControlLayout.lastPassTimeOffset)
    notePass(statistics, at: now, milliseconds: milliseconds)
  }
}

/// The work that a collection has done.
enum CollectionKind {
  /// It has done all that a collection does.
  case whole
  /// It has evicted records that are known from an earlier one.
  case eviction
  /// It has removed what had expired, and found the records that are next to be evicted. It keeps no limits, so the next collection is due as
  /// before.
  case lookAhead
}
