internal import BlobStore
internal import SystemPackage
internal import TextFormats

extension BlobStore.RelocationReport {
  /// Returns a one-line summary of the moved records.
  ///
  /// - Parameter past: `packed` or `unpacked`.
  func text(_ past: String) -> String {
    "\(moved) \(past), \(ByteCount(movedBytes))" + (unsuited > 0 ? "; \(unsuited) stay files" : "")
      + (expired > 0 ? "; \(expired) have expired" : "") + (damaged > 0 ? "; \(damaged) are damaged" : "")
      + (failed > 0 ? "; \(failed) could not be moved" : "")
  }
}

extension JSONObject {
  /// - Parameter operation: `pack` or `unpack`.
  init(_ report: BlobStore.RelocationReport, _ operation: String, _ directory: FilePath) {
    self.init(type: "relocation")
    add("directory", directory.string)
    add("operation", operation)
    add("moved", report.moved)
    add("bytes", report.movedBytes)
    add("unsuited", report.unsuited)
    add("expired", report.expired)
    add("damaged", report.damaged)
    add("failed", report.failed)
  }
}
