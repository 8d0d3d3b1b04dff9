internal import BlobRecord
internal import Posix

extension BlobStore {
  /// The loads and stores of the directory since its control file was made, by all processes.
  ///
  /// Zeros where there is no control file, or one without counters.
  ///
  /// - Complexity: O(1).
  public func traffic() throws(BlobStoreError) -> Traffic {
    try withErrorContext("statistics") {
      guard let open = try core.root.opened() else { return Traffic() }
      return try core.controlFiles.controlFile(of: open, makesIt: false)?.traffic ?? Traffic()
    }
  }

  /// Counts for all processes what was asked of a tier behind the directory.
  ///
  /// - Returns: false, with nothing counted, where no control file with counters is open.
  /// - Complexity: no system call.
  package func count(_ traffic: RemoteTraffic) -> Bool {
    guard let control = core.root.lastOpened?.openedControlFile, control.isMapped else { return false }
    control.count(traffic)
    return true
  }

  /// The last whole collections of the directory, the latest first, with what has happened between them.
  ///
  /// Sixteen are remembered. Stopped ones do not count.
  ///
  /// - Complexity: O(1).
  public func recentPasses() throws(BlobStoreError) -> [RecentPass] {
    try withErrorContext("statistics") {
      guard let open = try core.root.opened(), let control = core.countersFile(of: open) else { return [] }
      return control.recentPasses(control.statistics)
    }
  }

  /// About how often each of some records was used lately, 15 times at the most; nil where no uses are counted.
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

  /// Begins to count anew what is asked of the directory, for all processes.
  public func clearTraffic() throws(BlobStoreError) {
    try withErrorContext("statistics") {
      guard let open = try core.root.opened() else { return }
      try core.controlFiles.controlFile(of: open, makesIt: false)?.clearTraffic(at: core.configuration.now())
    }
  }
}
