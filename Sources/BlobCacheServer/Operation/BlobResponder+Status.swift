internal import BlobCache
internal import BlobStore
internal import TextFormats

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
