internal import BlobRecord
internal import Posix
internal import Synchronization

extension ControlFile {
  /// The statistics in the file, in which negative counts become zero.
  var statistics: BlobStore.CollectionStatistics {
    var statistics = BlobStore.CollectionStatistics()
    guard isMapped else { return statistics }
    func count(_ offset: Int) -> Int64 { max(0, number(at: offset)) }
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

  /// Adds a collection under the collector's lock. An eviction needs no lock, because the sums are atomic.
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
    // A stopped pass is incomplete, so it must not cause the next one to be skipped.
    guard kind == .whole, !report.wasStopped else { return }
    setWord(Int64(CurrentProcess.identifier), at: ControlLayout.lastPassProcessOffset)
    setWord(milliseconds, at: ControlLayout.lastPassMillisecondsOffset)
    setWord(now.seconds, at: ControlLayout.lastPassTimeOffset)
    notePass(statistics, at: now, milliseconds: milliseconds)
  }
}

enum CollectionKind {
  case whole
  /// A collection that only evicted records known from an earlier one.
  case eviction
  /// A collection that only removed expired records and found the next ones to evict, and postpones no collection.
  case lookAhead
}

// A ring of the sums at the end of the last whole collections.
extension ControlFile {
  private static let wordCount = ControlLayout.passByteCount / 8

  /// Records the sums, including the collection that ends now, under the collector's lock.
  func notePass(_ statistics: BlobStore.CollectionStatistics, at now: UnixTime, milliseconds: Int64) {
    let traffic = traffic
    let words = [
      now.seconds, milliseconds, statistics.expired, statistics.evicted, statistics.bytesFreed, traffic.hits,
      traffic.misses, traffic.stores,
    ]
    let offset = Self.offset(ofPass: statistics.passes)
    for (index, word) in words.enumerated() { setWord(word, at: offset + index * 8) }
  }

  /// Returns the last whole collections, the latest first, each with the changes since the one before.
  ///
  /// The oldest recorded pass only provides the start of the next one, unless it was the first of all.
  func recentPasses(_ statistics: BlobStore.CollectionStatistics) -> [BlobStore.RecentPass] {
    guard isMapped, statistics.passes > 0 else { return [] }
    let last = statistics.passes
    let first = max(1, last - Int64(ControlLayout.passCount) + 2)
    return (first...last).reversed().compactMap { number in
      let words = words(ofPass: number)
      let before = number > 1 ? self.words(ofPass: number - 1) : [Int64](repeating: 0, count: Self.wordCount)
      // Older versions record no passes.
      guard words[0] > 0, number == 1 || before[0] > 0 else { return nil }
      func since(_ index: Int) -> Int64 { max(0, max(0, words[index]) - max(0, before[index])) }
      return BlobStore.RecentPass(
        time: UnixTime(seconds: words[0]), seconds: Double(max(0, words[1])) / 1000, expired: since(2),
        evicted: since(3), bytesFreed: since(4), hits: since(5), misses: since(6), stores: since(7))
    }
  }

  private func words(ofPass number: Int64) -> [Int64] {
    (0..<Self.wordCount).map { self.number(at: Self.offset(ofPass: number) + $0 * 8) }
  }

  private static func offset(ofPass number: Int64) -> Int {
    ControlLayout.passesNotedOffset + Int(number % Int64(ControlLayout.passCount)) * ControlLayout.passByteCount
  }
}

enum CountedLoad {
  case miss
  case hit(byteCount: Int)
  case hitInMemory(byteCount: Int)
}

extension ControlFile {
  private enum TrafficSum: Int {
    case diskHits, memoryHits, misses, bytesServed, stores, bytesStored
  }

  func count(_ load: CountedLoad, of digest: UInt64) {
    guard isMapped else { return }
    switch load {
    case .miss: add(1, to: .misses, of: digest)
    case .hit(let byteCount):
      add(1, to: .diskHits, of: digest)
      add(Int64(byteCount), to: .bytesServed, of: digest)
    case .hitInMemory(let byteCount):
      add(1, to: .memoryHits, of: digest)
      add(Int64(byteCount), to: .bytesServed, of: digest)
    }
  }

  func countStore(of digest: UInt64, byteCount: Int64, at now: @autoclosure () -> UnixTime) {
    guard isMapped else { return }
    if word(at: ControlLayout.countedSinceOffset) == 0 {
      setWord(now().seconds, at: ControlLayout.countedSinceOffset)
    }
    add(1, to: .stores, of: digest)
    add(byteCount, to: .bytesStored, of: digest)
  }

  /// Counts the requests to a remote tier. The file must be mapped.
  func count(_ remote: BlobStore.RemoteTraffic) {
    for (index, count) in BlobStore.RemoteTraffic.counts.enumerated() where remote[keyPath: count] != 0 {
      counter(Self.offsetOfRemoteSum(index)) { _ = $0.wrappingAdd(remote[keyPath: count], ordering: .relaxed) }
    }
  }

  private static func offsetOfRemoteSum(_ index: Int) -> Int { ControlLayout.remoteTrafficOffset + index * 8 }

  private func add(_ value: Int64, to sum: TrafficSum, of digest: UInt64) {
    let block = Int(truncatingIfNeeded: digest) & (ControlLayout.trafficBlockCount - 1)
    counter(Self.offset(of: sum, inBlock: block)) { _ = $0.wrappingAdd(value, ordering: .relaxed) }
  }

  private static func offset(of sum: TrafficSum, inBlock block: Int) -> Int {
    ControlLayout.trafficOffset + block * ControlLayout.trafficBlockByteCount + sum.rawValue * 8
  }

  /// The traffic in the file, in which negative counts become zero.
  var traffic: BlobStore.Traffic {
    var traffic = BlobStore.Traffic()
    guard isMapped else { return traffic }
    func total(_ sum: TrafficSum) -> Int64 {
      (0..<ControlLayout.trafficBlockCount).reduce(0) { $0 + max(0, number(at: Self.offset(of: sum, inBlock: $1))) }
    }
    let since = word(at: ControlLayout.countedSinceOffset)
    traffic.since = since > 0 ? UnixTime(seconds: since) : nil
    traffic.memoryHits = total(.memoryHits)
    traffic.hits = total(.diskHits) + traffic.memoryHits
    traffic.misses = total(.misses)
    traffic.bytesServed = total(.bytesServed)
    traffic.stores = total(.stores)
    traffic.bytesStored = total(.bytesStored)
    for (index, count) in BlobStore.RemoteTraffic.counts.enumerated() {
      traffic.remote[keyPath: count] = max(0, number(at: Self.offsetOfRemoteSum(index)))
    }
    return traffic
  }

  func clearTraffic(at now: UnixTime) {
    guard isMapped else { return }
    let end = ControlLayout.trafficOffset + ControlLayout.trafficBlockCount * ControlLayout.trafficBlockByteCount
    // The sums of the remote tier directly precede the others.
    for offset in stride(from: ControlLayout.remoteTrafficOffset, to: end, by: 8) { setWord(0, at: offset) }
    setWord(now.seconds, at: ControlLayout.countedSinceOffset)
  }
}

enum EvictionCause: Int, CaseIterable {
  case sizeLimit, countLimit
  case freeSpace
  case trim
}

/// The evictions of a collection by cause, and the ages of the evicted records.
struct EvictionSums {
  var cause = EvictionCause.trim
  /// The counts in the order of the causes.
  private(set) var counts = [Int64](repeating: 0, count: EvictionCause.allCases.count)
  /// The sum of the seconds since the last update of the `aged` records, whose update times are known.
  private(set) var age: Int64 = 0
  private(set) var aged: Int64 = 0

  mutating func add() { counts[cause.rawValue] += 1 }

  mutating func add(age seconds: Int64) {
    age.saturatingAdd(max(0, seconds))
    aged += 1
  }
}
