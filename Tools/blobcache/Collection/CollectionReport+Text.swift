internal import BlobRecord
internal import BlobStore
internal import SystemPackage
internal import TextFormats

extension BlobStore.CollectionReport {
  /// A one-line summary of the pass.
  var text: String {
    let rounded = (seconds * 1000).rounded() / 1000
    return "\(directory.string.printable): \(examined) examined, \(expired) expired, "
      + "\(evicted) evicted, \(damaged) damaged, \(temporary) temporary; "
      + "\(ByteCount(bytesFreed)) \(dryRun ? "to free" : "freed"), "
      + "\(ByteCount(bytesAfter)) \(dryRun ? "to stay" : "left"); \(rounded) s"
      + (foreignRecords.files > 0
        ? "; \(foreignRecords.files) records of others, \(ByteCount(foreignRecords.bytes)), stay" : "")
      + (stampedAhead > 0 ? "; \(stampedAhead) from a clock that was ahead" : "")
      + (failed > 0 ? "; \(failed) could not be read or removed" : "")
      + (busy > 0 ? ", \(busy) of them busy" : "")
      + (wasStopped ? "; stopped" : wasCutShort ? "; cut short" : "") + (dryRun ? "; dry run" : "")
  }
}

extension BlobStore.CollectionReport {
  func reportChangeOfOwner(_ options: DirectoryOptions) {
    let text = foreignRecords.changeOfOwner(of: directory, beside: recordsAfter)
    if let text, !options.quiet { StandardError.report(text) }
    if failed > 0 { ChangeOfOwner.report(directory) }
  }
}

extension JSONObject {
  /// Creates the JSON object of a pass that was skipped because of another collection.
  ///
  /// - Parameters:
  ///   - process: The process that is collecting the directory, if known.
  ///   - lastPass: The time of the last collection, if the directory was skipped because it is recent.
  init(skipped directory: FilePath, process: Int32? = nil, lastPass: UnixTime? = nil) {
    self.init(type: "skipped")
    add("directory", directory.string)
    add("process", process)
    if let lastPass { add("lastCollectionAt", lastPass.seconds) }
  }

  init(_ report: BlobStore.CollectionReport) {
    self.init(type: "collection")
    add("directory", report.directory.string)
    add("examined", report.examined)
    add("expired", report.expired)
    add("evicted", report.evicted)
    add("damaged", report.damaged)
    add("temporary", report.temporary)
    add("bytesFreed", report.bytesFreed)
    add("bytesAfter", report.bytesAfter)
    add("seconds", seconds: report.seconds)
    add("dryRun", report.dryRun)
    add("subdirectories", report.subdirectories)
    add("failed", report.failed)
    add("wasCutShort", report.wasCutShort)
    add("wasStopped", report.wasStopped)
    add("recordsAfter", report.recordsAfter)
    add("recycled", report.recycled)
    add("recycledBytesFreed", report.recycledBytesFreed)
    add("recycledBytesAfter", report.recycledBytesAfter)
    add("busy", report.busy)
    add(report.foreignRecords)
    add("stampedAhead", report.stampedAhead)
  }
}
