internal import BlobRecord
internal import Synchronization

extension ControlFile {
  /// Runs a change of a header after which the record may expire earlier. No mark may say later, even if the process
  /// dies in the middle.
  ///
  /// A mark that was opened before is lowered. While the change is under way, it is counted, and no mark is opened. The
  /// walk of a mark that is opened later meets the new header.
  func loweringMarks(of subdirectory: String, for header: RecordHeader, _ change: () throws -> Void) rethrows {
    try countingChange(of: subdirectory, change) { SubdirectoryMarks.lower(self, subdirectory, header) }
  }

  /// Runs a change after which a file is longer, which the subdirectory does not show. Marks tell sizes, so none holds.
  func endingMarks(of subdirectory: String, _ change: () throws -> Void) rethrows {
    try countingChange(of: subdirectory, change) { SubdirectoryMarks.end(self, subdirectory) }
  }

  private func countingChange(of subdirectory: String, _ change: () throws -> Void, lower: () -> Void) rethrows {
    guard isMapped, !subdirectory.isEmpty else { return try change() }
    headerChangesHere.wrappingAdd(1, ordering: .sequentiallyConsistent)
    addHeaderChanges(1)
    defer {
      addHeaderChanges(-1)
      headerChangesHere.wrappingSubtract(1, ordering: .sequentiallyConsistent)
    }
    lower()
    try change()
  }

  private func addHeaderChanges(_ change: Int64) {
    counter(ControlLayout.headerChangesOffset) { _ = $0.wrappingAdd(change, ordering: .sequentiallyConsistent) }
  }

  /// Whether there is a change of a header under way, or a process has died making one.
  ///
  /// - Parameter sharing: exclusive stores hold no stripes that would tell the one from the other. There, all are this process's.
  func hasHeaderChanges(_ sharing: BlobStore.Sharing) -> Bool {
    switch sharing {
    case .exclusive: headerChangesHere.load(ordering: .sequentiallyConsistent) != 0
    case .shared:
      counter(ControlLayout.headerChangesOffset) { $0.load(ordering: .sequentiallyConsistent) } != 0
    }
  }

  /// Forgets the changes of processes that died making them. By the holder of all stripes, so that none is under way.
  func forgetHeaderChanges() {
    counter(ControlLayout.headerChangesOffset) { $0.store(0, ordering: .sequentiallyConsistent) }
  }
}
