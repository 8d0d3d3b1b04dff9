internal import BlobRecord
internal import Synchronization

/// A load as it is counted.
enum CountedLoad {
  case miss
  case hit(byteCount: Int)
  /// Answered by a cache in front of the store.
  case hitInMemory(byteCount: Int)
}

extension ControlFile {
  /// The sums of a block, in their order there.
  private enum TrafficSum: Int {
    case diskHits, memoryHits, misses, bytesServed, stores, bytesStored
  }

  /// Counts a load. Counts of other threads and processes never undo it.
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

  /// Counts what was asked of a remote tier. The file is mapped.
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

  /// The traffic in the file. A count below zero becomes zero.
  var traffic: BlobStore.Traffic {
    var traffic = BlobStore.Traffic()
    guard isMapped else { return traffic }
    func total(_ sum: TrafficSum) -> Int64 {
      (0..<ControlLayout.trafficBlockCount).reduce(0) { total, block in
        let value = counter(Self.offset(of: sum, inBlock: block)) { $0.load(ordering: .relaxed) }
        return total.saturatingAdding(max(0, value))
      }
    }
    let since = word(at: ControlLayout.countedSinceOffset)
    traffic.since = since > 0 ? UnixTime(seconds: since) : nil
    traffic.memoryHits = total(.memoryHits)
    traffic.hits = total(.diskHits).saturatingAdding(traffic.memoryHits)
    traffic.misses = total(.misses)
    traffic.bytesServed = total(.bytesServed)
    traffic.stores = total(.stores)
    traffic.bytesStored = total(.bytesStored)
    for (index, count) in BlobStore.RemoteTraffic.counts.enumerated() {
      traffic.remote[keyPath: count] = max(0, counter(Self.offsetOfRemoteSum(index)) { $0.load(ordering: .relaxed) })
    }
    return traffic
  }

  /// Begins to count anew.
  func clearTraffic(at now: UnixTime) {
    guard isMapped else { return }
    let end = ControlLayout.trafficOffset + ControlLayout.trafficBlockCount * ControlLayout.trafficBlockByteCount
    // The sums of the remote tier lie right before the others.
    for offset in stride(from: ControlLayout.remoteTrafficOffset, to: end, by: 8) { setWord(0, at: offset) }
    setWord(now.seconds, at: ControlLayout.countedSinceOffset)
  }
}
