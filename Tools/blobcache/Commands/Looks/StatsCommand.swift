internal import ArgumentParser
internal import BlobRecord
internal import BlobStore
internal import SystemPackage
internal import TextFormats

struct StatsCommand: DirectorySubcommand {
  static let configuration = CommandConfiguration(
    commandName: "stats", abstract: "Print hits, misses, stores and what collections have removed.",
    discussion: "All processes of the directory count together, in shared memory. Nothing is looked at.")

  static let examples = [
    Example("How well a cache works", "blobcache stats cache"),
    Example("Begin to count anew, before a measurement", "blobcache stats cache --zero"),
  ]

  @Argument(help: ArgumentHelp("The cache's directory.", valueName: "dir"))
  var directory: FilePath

  @Flag(help: "Begin to count hits, misses and stores anew, after they were printed.")
  var zero = false

  @OptionGroup var options: DirectoryOptions

  func answer(_ output: inout Output) throws -> Answer {
    let store = try options.store(at: directory)
    let (traffic, collections) = (try store.traffic(), try store.statistics())
    let passes = try store.recentPasses()
    let isEmpty = traffic == BlobStore.Traffic() && collections == BlobStore.CollectionStatistics()
    if options.json {
      output.line(JSONObject(traffic, collections, passes))
    } else {
      for line in Self.lines(traffic, collections, at: store.configuration.now()) { output.line(line) }
      Self.table(passes).forEach { output.line($0) }
    }
    if zero { try store.clearTraffic() }
    return isEmpty ? WrongDirectory.answer(directory, options) : .done
  }

  private static func lines(
    _ traffic: BlobStore.Traffic, _ collections: BlobStore.CollectionStatistics, at now: UnixTime
  ) -> [String] {
    func time(_ time: UnixTime?) -> String { time.map { "\($0.iso8601), \($0.relative(to: now))" } ?? "never" }
    func bytes(_ count: Int64) -> String { ByteCount(count).description }
    let ratio = traffic.hitRatio.map { ", " + percent($0) } ?? ""
    let rows: [(name: String, value: String)] = [
      ("counted since", time(traffic.since)),
      ("hits", "\(traffic.hits)\(ratio)"), ("  from memory", "\(traffic.memoryHits)"),
      ("misses", "\(traffic.misses)"), ("bytes served", bytes(traffic.bytesServed)),
      ("stores", "\(traffic.stores)"), ("bytes stored", bytes(traffic.bytesStored)),
      ("collections", "\(collections.passes)"), ("  known records only", "\(collections.evictions)"),
      ("expired", "\(collections.expired)"), ("evicted", "\(collections.evicted)"),
      ("  for size limit", "\(collections.evictedForSizeLimit)"),
      ("  for count limit", "\(collections.evictedForCountLimit)"),
      ("  for free space", "\(collections.evictedForFreeSpace)"), ("  by trims", "\(collections.evictedByTrims)"),
      ("  mean age", collections.meanEvictedAge.map { TimeSpan(seconds: $0).rounded } ?? "-"),
      ("damaged", "\(collections.damaged)"), ("temporary", "\(collections.temporary)"),
      ("bytes freed", bytes(collections.bytesFreed)), ("last collection", time(collections.lastPass?.time)),
    ]
    return (rows + remoteRows(traffic.remote)).map { $0.name.padded(to: 20) + "  " + $0.value }
  }

  /// Returns the rows for the remote tier, or an empty array if the directory has no tier.
  private static func remoteRows(_ remote: BlobStore.RemoteTraffic) -> [(name: String, value: String)] {
    guard remote != BlobStore.RemoteTraffic() else { return [] }
    return [
      ("remote hits", "\(remote.hits)"), ("remote misses", "\(remote.misses)"),
      ("remote failures", "\(remote.failures)"), ("remote stores", "\(remote.stores)"),
      ("remote removals", "\(remote.removals)"), ("  given up", "\(remote.dropped)"),
      ("bytes from there", ByteCount(remote.bytesLoaded).description),
      ("bytes to there", ByteCount(remote.bytesStored).description),
    ]
  }

  /// Returns a row for each recent collection with the traffic since the previous one.
  private static func table(_ passes: [BlobStore.RecentPass]) -> [String] {
    guard !passes.isEmpty else { return [] }
    let columns = FixedColumns(columns: [
      FixedColumns.Column(title: "COLLECTION", width: 20),
      FixedColumns.Column(title: "EXPIRED", width: 9, alignment: .right),
      FixedColumns.Column(title: "EVICTED", width: 9, alignment: .right),
      FixedColumns.Column(title: "FREED", width: 9, alignment: .right),
      FixedColumns.Column(title: "HITS", width: 11, alignment: .right),
      FixedColumns.Column(title: "MISSES", width: 11, alignment: .right),
    ])
    return ["", columns.header(last: "HIT RATIO")]
      + passes.map { pass in
        columns.row(
          [
            pass.time.iso8601, "\(pass.expired)", "\(pass.evicted)", ByteCount(pass.bytesFreed).description,
            "\(pass.hits)", "\(pass.misses)",
          ], last: pass.hitRatio.map(percent) ?? "-")
      }
  }

  private static func percent(_ ratio: Double) -> String { "\((ratio * 1000).rounded() / 10) %" }
}

extension JSONObject {
  fileprivate init(
    _ traffic: BlobStore.Traffic, _ collections: BlobStore.CollectionStatistics, _ passes: [BlobStore.RecentPass]
  ) {
    self.init(type: "stats")
    add("since", traffic.since?.seconds)
    add("hits", traffic.hits)
    add("memoryHits", traffic.memoryHits)
    add("misses", traffic.misses)
    add("hitRatio", ratio: traffic.hitRatio)
    add("bytesServed", traffic.bytesServed)
    add("stores", traffic.stores)
    add("bytesStored", traffic.bytesStored)
    add("collections", collections.passes)
    add("evictions", collections.evictions)
    add("collectedExpired", collections.expired)
    add("collectedEvicted", collections.evicted)
    add("evictedForSizeLimit", collections.evictedForSizeLimit)
    add("evictedForCountLimit", collections.evictedForCountLimit)
    add("evictedForFreeSpace", collections.evictedForFreeSpace)
    add("evictedByTrims", collections.evictedByTrims)
    add("meanEvictedAge", collections.meanEvictedAge)
    add("collectedDamaged", collections.damaged)
    add("collectedTemporary", collections.temporary)
    add("collectedBytes", collections.bytesFreed)
    add("collectionSeconds", seconds: collections.seconds)
    add("lastCollectionAt", collections.lastPass?.time.seconds)
    if traffic.remote != BlobStore.RemoteTraffic() { add("remote", JSONObject(traffic.remote)) }
    add("passes", passes.map(JSONObject.init))
  }

  private init(_ remote: BlobStore.RemoteTraffic) {
    self.init()
    add("hits", remote.hits)
    add("misses", remote.misses)
    add("failures", remote.failures)
    add("stores", remote.stores)
    add("removals", remote.removals)
    add("dropped", remote.dropped)
    add("bytesLoaded", remote.bytesLoaded)
    add("bytesStored", remote.bytesStored)
  }

  private init(_ pass: BlobStore.RecentPass) {
    self.init()
    add("at", pass.time.seconds)
    add("seconds", seconds: pass.seconds)
    add("expired", pass.expired)
    add("evicted", pass.evicted)
    add("bytesFreed", pass.bytesFreed)
    add("hits", pass.hits)
    add("misses", pass.misses)
    add("stores", pass.stores)
    add("hitRatio", ratio: pass.hitRatio)
  }
}
