/// The lanes of a cache. Each kind of work has its own, so that a load never waits behind removals, a scan or a
/// collection.
struct Lanes: Sendable {
  /// Loads, and looks at headers.
  let reads: Lane
  /// Stores, touches, locks.
  let writes: Lane
  let removals: Lane
  /// Enumerations, a batch at a time.
  let scans: Lane
  /// Collections, and touches that were put off.
  let upkeep: Lane

  init(width: Int) {
    reads = Lane(width: width)
    writes = Lane(width: width)
    // A quarter, because removals in hand keep the disk, and the cores, from loads.
    removals = Lane(width: max(width / 4, 1))
    scans = Lane(width: max(width / 2, 1))
    upkeep = Lane(width: 2)
  }

  var all: [Lane] { [reads, writes, removals, scans, upkeep] }

  var threadCount: Int { all.reduce(0) { $0 + $1.threadCount } }

  func close() { for lane in all { lane.close() } }

  func closed() async { for lane in all { await lane.closed() } }
}
