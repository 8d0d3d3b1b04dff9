internal import BlobRecord
internal import BlobStore
internal import SystemPackage
internal import TextFormats

/// The totals of all collections since the process started, for Prometheus.
struct CollectionMetrics {
  private var directories: [CollectionPlan.Directory: Totals] = [:]
  /// A Boolean value that indicates whether the last read of the configuration found no mistakes.
  var configurationIsSound = true

  private struct Totals {
    var passes: Int64 = 0
    var failures: Int64 = 0
    var skipped: Int64 = 0
    var sum: BlobStore.CollectionReport
    var last: BlobStore.CollectionReport?
    var lastEnd: UnixTime?
    /// The counters of all processes, or `nil` before the first read.
    var counted: DirectoryCounts?
  }

  init(_ plan: CollectionPlan) {
    follow(plan)
  }

  /// Removes directories that are no longer collected and keeps the totals of the others.
  mutating func follow(_ plan: CollectionPlan) {
    let before = Dictionary(uniqueKeysWithValues: directories.map { ($0.key.path, $0.value) })
    directories = [:]
    for directory in plan.directories {
      directories[directory] =
        before[directory.path] ?? Totals(sum: BlobStore.CollectionReport(directory: directory.path))
    }
  }

  mutating func add(
    _ report: BlobStore.CollectionReport, _ counted: DirectoryCounts? = nil, to directory: CollectionPlan.Directory,
    at time: UnixTime = .now
  ) {
    if let counted { directories[directory]?.counted = counted }
    directories[directory]?.passes += 1
    directories[directory]?.sum.add(report)
    directories[directory]?.last = report
    directories[directory]?.lastEnd = time
  }

  mutating func addFailure(to directory: CollectionPlan.Directory) {
    directories[directory]?.failures += 1
  }

  mutating func addSkip(to directory: CollectionPlan.Directory) {
    directories[directory]?.skipped += 1
  }
}

extension UnixTime {
  fileprivate static var now: UnixTime { BlobStore.Configuration().now() }
}

extension BlobStore.CollectionReport {
  fileprivate mutating func add(_ report: BlobStore.CollectionReport) {
    examined += report.examined
    expired += report.expired
    evicted += report.evicted
    damaged += report.damaged
    temporary += report.temporary
    subdirectories += report.subdirectories
    stampedAhead += report.stampedAhead
    failed += report.failed
    bytesFreed.saturatingAdd(report.bytesFreed)
    seconds += report.seconds
  }
}

// MARK: - Text

extension CollectionMetrics {
  /// A metric family with one series per directory. A value of `nil` omits the directory.
  private struct Family: Sendable {
    let name: String
    let kind: PrometheusText.Kind
    let help: String
    let value: @Sendable (CollectionPlan.Directory, Totals) -> String?

    static func counter(
      _ name: String, _ help: String, _ value: @escaping @Sendable (Totals) -> any CustomStringConvertible
    ) -> Family {
      Family(name: "blobcache_collection_\(name)_total", kind: .counter, help: help) { "\(value($1))" }
    }

    static func traffic(
      _ name: String, _ help: String, _ value: @escaping @Sendable (BlobStore.Traffic) -> Int64
    ) -> Family {
      Family(name: "blobcache_\(name)_total", kind: .counter, help: help) {
        $1.counted.map { "\(value($0.traffic))" }
      }
    }

    static func eviction(
      _ name: String, _ help: String, _ value: @escaping @Sendable (BlobStore.CollectionStatistics) -> Int64
    ) -> Family {
      Family(name: "blobcache_\(name)_total", kind: .counter, help: help) {
        $1.counted.map { "\(value($0.collections))" }
      }
    }

    static func gauge(
      _ name: String, _ help: String,
      _ value: @escaping @Sendable (CollectionPlan.Directory, Totals) -> (any CustomStringConvertible)?
    ) -> Family {
      Family(name: "blobcache_" + name, kind: .gauge, help: help) { value($0, $1).map { "\($0)" } }
    }
  }

  private static let families: [Family] = [
    .counter("passes", "Passes made.") { $0.passes },
    .counter("failures", "Passes that could not be made.") { $0.failures },
    .counter("skipped", "Passes skipped because of another process.") { $0.skipped },
    .counter("examined", "Record files looked at.") { $0.sum.examined },
    .counter("expired", "Records removed because their time was over.") { $0.sum.expired },
    .counter("evicted", "Records removed to keep the size limit.") { $0.sum.evicted },
    .counter("damaged", "Damaged files removed.") { $0.sum.damaged },
    .counter("temporary", "Temporary files removed whose writers were gone.") { $0.sum.temporary },
    .counter("subdirectories", "Empty subdirectories removed.") { $0.sum.subdirectories },
    .counter("stamped_ahead", "Records from a clock that was ahead.") { $0.sum.stampedAhead },
    .counter("failed_files", "Files that could not be read or removed.") { $0.sum.failed },
    .counter("freed_bytes", "Bytes of all that was removed.") { $0.sum.bytesFreed },
    .counter("duration_seconds", "Time that passes took.") { $0.sum.seconds },
    .traffic("hits", "Loads that were answered, by any process.") { $0.hits },
    .traffic("memory_hits", "Those of them that memory has answered.") { $0.memoryHits },
    .traffic("misses", "Loads that have found nothing.") { $0.misses },
    .traffic("served_bytes", "Bytes of the payloads that were loaded.") { $0.bytesServed },
    .traffic("stores", "Records stored.") { $0.stores },
    .traffic("stored_bytes", "Bytes of the payloads that were stored.") { $0.bytesStored },
    .eviction("evicted_for_size_limit", "Records evicted for the size limit, by any process.") {
      $0.evictedForSizeLimit
    },
    .eviction("evicted_for_count_limit", "Records evicted for the count limit.") { $0.evictedForCountLimit },
    .eviction("evicted_for_free_space", "Records evicted for room on the volume.") { $0.evictedForFreeSpace },
    .eviction("evicted_by_trims", "Records evicted by trims.") { $0.evictedByTrims },
    .gauge("mean_evicted_age_seconds", "From the last update of evicted records to their end, on average.") {
      $1.counted?.collections.meanEvictedAge
    },
    .gauge("hit_ratio", "Of the loads by any process, the share that was answered.") { $1.counted?.traffic.hitRatio },
    .gauge("collection_last_duration_seconds", "Time that the last pass took.") { $1.last?.seconds },
    .gauge("collection_last_pass_timestamp_seconds", "When the last pass of this process ended, in Unix time.") {
      $1.lastEnd?.seconds
    },
    .gauge("bytes", "Bytes left by the last pass, headers included.") { $1.last?.bytesAfter },
    .gauge("size_limit_bytes", "The size limit that is configured.") { directory, _ in directory.sizeLimit?.bytes },
  ]

  var text: String {
    var metrics = PrometheusText()
    let sorted = directories.sorted { $0.key.path.string < $1.key.path.string }
    for family in Self.families {
      let samples = sorted.compactMap { directory, totals in
        family.value(directory, totals).map { (directory: directory.path.string, value: $0) }
      }
      guard !samples.isEmpty else { continue }
      metrics.family(family.name, family.kind, family.help)
      for sample in samples { metrics.series(family.name, [("directory", sample.directory)], sample.value) }
    }
    let name = "blobcache_configuration_sound"
    metrics.family(name, .gauge, "Whether the configuration had no mistakes when it was read last.")
    metrics.series(name, [], configurationIsSound ? 1 : 0)
    return metrics.text
  }
}
