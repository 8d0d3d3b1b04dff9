internal import BlobCache
internal import BlobStore
internal import TextFormats

extension BlobResponder {
  /// The metrics of the directory have the same names as in `collect` and cover all processes.
  func metrics() async throws -> ServerResponse {
    let directory = [("directory", cache.directory.string)]
    var metrics = PrometheusText()
    let traffic = try await cache.traffic()
    let counters: [(name: String, help: String, value: Int64)] = [
      ("hits", "Loads that were answered, by any process.", traffic.hits),
      ("memory_hits", "Those of them that memory has answered.", traffic.memoryHits),
      ("misses", "Loads that have found nothing.", traffic.misses),
      ("served_bytes", "Bytes of the payloads that were loaded.", traffic.bytesServed),
      ("stores", "Records stored.", traffic.stores),
      ("stored_bytes", "Bytes of the payloads that were stored.", traffic.bytesStored),
    ]
    for counter in counters {
      let name = "blobcache_\(counter.name)_total"
      metrics.family(name, .counter, counter.help)
      metrics.series(name, directory, counter.value)
    }
    var gauges: [(name: String, help: String, value: Int64)] = []
    // The usage is unknown before the first collection, and if processes cannot share memory.
    if let usage = try await cache.usageEstimate() {
      gauges += [
        ("records", "Records in the directory.", usage.records),
        ("bytes", "Bytes of their files.", usage.bytes),
        ("locked_records", "Records that are locked.", usage.lockedRecords),
        ("locked_bytes", "Bytes of their files.", usage.lockedBytes),
      ]
    }
    let packs = try await cache.packUsage()
    if packs.packs > 0 {
      gauges += [
        ("packs", "Files that hold many small records each.", packs.packs),
        ("packed_records", "Records in them, about.", packs.records),
        ("pack_live_bytes", "Bytes that those take there, about.", packs.liveBytes),
        ("pack_dead_bytes", "Bytes there of records that were replaced or removed, about.", packs.deadBytes),
        ("pack_medium_bytes", "Bytes that the packs take on the medium.", packs.mediumBytes),
      ]
    }
    for gauge in gauges {
      metrics.family("blobcache_" + gauge.name, .gauge, gauge.help)
      metrics.series("blobcache_" + gauge.name, directory, gauge.value)
    }
    if let remote = cache.remoteStatus { metrics.add(remote, directory) }
    let checks = "blobcache_http_content_checks_total"
    metrics.family(checks, .counter, "Payloads whose SHA-256 was compared with their keys before they were sent.")
    metrics.series(checks, directory, contentChecks.hashes)
    let name = "blobcache_http_requests_total"
    metrics.family(name, .counter, "Requests that were answered.")
    for (series, count) in requests.all {
      metrics.series(
        name, [("route", series.route), ("method", series.method), ("status", "\(series.status)")], count)
    }
    return ServerResponse(
      status: 200,
      fields: ["Content-Type": "text/plain; version=0.0.4; charset=utf-8", "Cache-Control": "no-store"],
      body: .text(metrics.text))
  }
}

extension PrometheusText {
  fileprivate mutating func add(_ remote: RemoteStatus, _ directory: [(String, String)]) {
    for counter in remote.counters {
      let name = "blobcache_remote_\(counter.metricName)_total"
      family(name, .counter, counter.help)
      series(name, directory, counter.value)
    }
    for gauge in remote.gauges {
      let name = "blobcache_remote_\(gauge.metricName)"
      family(name, .gauge, gauge.help)
      series(name, directory, gauge.value)
    }
    let name = "blobcache_remote_condition"
    family(name, .gauge, "1 for what the remote tier is now, to loads and to changes.")
    for (user, now) in [("loads", remote.condition), ("changes", remote.changeCondition)] {
      for condition in RemoteStatus.Condition.allCases {
        series(
          name, directory + [("for", user), ("condition", condition.rawValue)], condition == now ? 1 : 0)
      }
    }
  }
}

extension RemoteStatus {
  struct Figure {
    /// The name in JSON, such as `droppedUploads`.
    let name: String
    let help: String
    let value: Int64

    /// The name of the metric, such as `dropped_uploads`.
    var metricName: String {
      name.reduce(into: "") { text, letter in text += letter.isUppercase ? "_" + letter.lowercased() : String(letter) }
    }
  }

  var counters: [Figure] {
    [
      Figure(
        name: "requests", help: "Requests to the remote tier that have ended, well or not, of every kind.",
        value: requests),
      Figure(name: "hits", help: "Loads that the remote tier answered with a blob.", value: hits),
      Figure(name: "misses", help: "Loads that it answered with nothing, or with an expired record.", value: misses),
      Figure(name: "passedOver", help: "Loads that did not ask, because it is left alone.", value: passedOver),
      Figure(name: "failures", help: "Requests that failed, of every kind.", value: failures),
      Figure(name: "forbidden", help: "Requests that were not allowed for their object.", value: forbidden),
      Figure(name: "damaged", help: "Objects that were no record of their key.", value: damaged),
      Figure(name: "uploads", help: "Stores that have reached it.", value: uploads),
      Figure(name: "removals", help: "Removals that have reached it.", value: removals),
      Figure(name: "droppedUploads", help: "Stores that were given up.", value: droppedUploads),
      Figure(name: "droppedRemovals", help: "Removals that were given up.", value: droppedRemovals),
      Figure(name: "uploadedBytes", help: "Bytes of the payloads that were stored there.", value: uploadedBytes),
      Figure(name: "loadedBytes", help: "Bytes of the payloads that came from there.", value: loadedBytes),
    ]
  }

  var gauges: [Figure] {
    [
      Figure(name: "waitingChanges", help: "Stores and removals on their way there.", value: Int64(waitingChanges)),
      Figure(name: "waitingBytes", help: "Bytes of the stores among them.", value: Int64(waitingBytes)),
    ]
  }
}

extension BlobResponder {
  func status() async throws -> ServerResponse {
    let (traffic, usage) = (try await cache.traffic(), try await cache.usageEstimate())
    let packs = try await cache.packUsage()
    var line = JSONObject(type: "status", abbreviatesTabs: false)
    line.add("directory", cache.directory.string)
    line.add("records", usage?.records)
    line.add("bytes", usage?.bytes)
    line.add("lockedRecords", usage?.lockedRecords)
    line.add("lockedBytes", usage?.lockedBytes)
    line.add("hits", traffic.hits)
    line.add("memoryHits", traffic.memoryHits)
    line.add("misses", traffic.misses)
    line.add("bytesServed", traffic.bytesServed)
    line.add("stores", traffic.stores)
    line.add("bytesStored", traffic.bytesStored)
    line.add("packs", packs.packs)
    line.add("packedRecords", packs.records)
    line.add("packLiveBytes", packs.liveBytes)
    line.add("packDeadBytes", packs.deadBytes)
    line.add("packMediumBytes", packs.mediumBytes)
    var text = line.text + "\n"
    if let remote = cache.remoteStatus { text += Self.line(remote) }
    return ServerResponse(
      status: 200, fields: ["Content-Type": "application/x-ndjson", "Cache-Control": "no-store"], body: .text(text))
  }

  private static func line(_ remote: RemoteStatus) -> String {
    var line = JSONObject(type: "remote", abbreviatesTabs: false)
    line.add("engine", remote.engine)
    line.add("condition", remote.condition.rawValue)
    line.add("changeCondition", remote.changeCondition.rawValue)
    for figure in remote.counters + remote.gauges { line.add(figure.name, figure.value) }
    return line.text + "\n"
  }
}
