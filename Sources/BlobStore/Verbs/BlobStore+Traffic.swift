internal import BlobRecord
internal import Posix

extension BlobStore {
  /// Returns the loads and stores of all processes since the directory's control file was created.
  ///
  /// - Returns: The traffic, which is zero without a control file that has counters.
  /// - Complexity: O(1).
  public func traffic() throws(BlobStoreError) -> Traffic {
    try withErrorContext("statistics") {
      guard let open = try core.root.opened() else { return Traffic() }
      return try core.controlFiles.controlFile(of: open, makesIt: false)?.traffic ?? Traffic()
    }
  }

  /// Counts the requests to a tier behind the directory, for all processes and without a system call. Returns
  /// `false`, with nothing counted, if no control file with counters is open.
  package func count(_ traffic: RemoteTraffic) -> Bool {
    guard let control = core.root.lastOpened?.openedControlFile, control.isMapped else { return false }
    control.count(traffic)
    return true
  }

  /// Returns the last complete collections of the directory, the latest first, with the changes between them.
  ///
  /// Sixteen collections are recorded. Stopped ones are not recorded.
  ///
  /// - Complexity: O(1).
  public func recentPasses() throws(BlobStoreError) -> [RecentPass] {
    try withErrorContext("statistics") {
      guard let open = try core.root.opened(), let control = core.countersFile(of: open) else { return [] }
      return control.recentPasses(control.statistics)
    }
  }

  /// Returns about how often each record was used recently, up to 15 times, or `nil` if no uses are counted.
  package func useCounts(of entries: [RecordEntry]) throws(BlobStoreError) -> [Int]? {
    try withErrorContext("statistics") {
      guard let open = try core.root.opened(),
        let control = try core.controlFiles.controlFile(of: open, makesIt: false)
      else { return nil }
      return core.uses.withSketch(of: control, in: open) { sketch in
        entries.map { entry in entry.path.map { sketch.uses(of: $0.digest).count } ?? 0 }
      }
    }
  }

  /// Resets the directory's traffic counters for all processes.
  public func clearTraffic() throws(BlobStoreError) {
    try withErrorContext("statistics") {
      guard let open = try core.root.opened() else { return }
      try core.controlFiles.controlFile(of: open, makesIt: false)?.clearTraffic(at: core.configuration.now())
    }
  }
}
