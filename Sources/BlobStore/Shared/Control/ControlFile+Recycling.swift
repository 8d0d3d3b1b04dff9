internal import Synchronization

extension ControlFile {
  func countRecycled(files: Int64, bytes: Int64) {
    guard isMapped else { return }
    counter(ControlLayout.recycledFilesOffset) { _ = $0.wrappingAdd(files, ordering: .relaxed) }
    counter(ControlLayout.recycledBytesOffset) { _ = $0.wrappingAdd(bytes, ordering: .relaxed) }
  }

  var recycled: (files: Int64, bytes: Int64)? {
    guard isMapped else { return nil }
    return (word(at: ControlLayout.recycledFilesOffset), word(at: ControlLayout.recycledBytesOffset))
  }

  /// Corrects the counts after a listing, because processes may have died between counting and moving a file. Files
  /// added during the listing count as not listed.
  func correctRecycled(to found: BlobStore.RemovalReport, since start: (files: Int64, bytes: Int64)) {
    guard let now = recycled else { return }
    countRecycled(
      files: found.files &+ max(now.files &- start.files, 0) &- now.files,
      bytes: found.bytes &+ max(now.bytes &- start.bytes, 0) &- now.bytes)
  }

  /// Counts a `barrier` or `full` change before it is made, because no older state may return after a power cut.
  func countDurableChange() {
    guard isMapped else { return }
    counter(ControlLayout.durableChangesOffset) { _ = $0.wrappingAdd(1, ordering: .relaxed) }
  }

  var durableChanges: Int64 { isMapped ? word(at: ControlLayout.durableChangesOffset) : 0 }
}
