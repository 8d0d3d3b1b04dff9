internal import Synchronization

// The numbers of a recycling bin that its processes share.
extension ControlFile {
  /// Counts files that came into the recycling bin, or left it.
  func countRecycled(files: Int64, bytes: Int64) {
    guard isMapped else { return }
    counter(ControlLayout.recycledFilesOffset) { _ = $0.wrappingAdd(files, ordering: .relaxed) }
    counter(ControlLayout.recycledBytesOffset) { _ = $0.wrappingAdd(bytes, ordering: .relaxed) }
  }

  /// The content of the recycling bin, by the counts; nil where nothing is counted.
  var recycled: (files: Int64, bytes: Int64)? {
    guard isMapped else { return nil }
    return (word(at: ControlLayout.recycledFilesOffset), word(at: ControlLayout.recycledBytesOffset))
  }

  /// Corrects the counts by a listing: stores that died have left them too low. Files that others added during the
  /// listing count as not met.
  func correctRecycled(to found: BlobStore.RemovalReport, since start: (files: Int64, bytes: Int64)) {
    guard let now = recycled else { return }
    countRecycled(
      files: found.files &+ max(now.files &- start.files, 0) &- now.files,
      bytes: found.bytes &+ max(now.bytes &- start.bytes, 0) &- now.bytes)
  }

  /// Counts a change of a record with durability `barrier` or `full`, before it is made.
  ///
  /// Nothing from before such a change may come back with a power cut.
  func countDurableChange() {
    guard isMapped else { return }
    counter(ControlLayout.durableChangesOffset) { _ = $0.wrappingAdd(1, ordering: .relaxed) }
  }

  /// How many there were; 0 where they are not counted.
  var durableChanges: Int64 { isMapped ? word(at: ControlLayout.durableChangesOffset) : 0 }
}
