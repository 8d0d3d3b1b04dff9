internal import Logging
internal import Posix

extension StoreCore {
  func usageEstimate() throws -> BlobStore.UsageEstimate? {
    guard let open = try root.opened() else { return BlobStore.UsageEstimate() }
    guard let control = countersFile(of: open), control.countersAreKnown else { return nil }
    return control.counters
  }

  /// Returns whether any version of this library has changed the directory.
  func hasControlFile() throws -> Bool {
    guard let open = try root.opened(), let control = countersFile(of: open) else { return false }
    return !control.file.isDamaged && !control.file.mayBePlanted
  }

  func countersFile(of open: OpenRoot) -> ControlFile? {
    do {
      return try open.controlFile(configuration.logger)
    } catch {
      // Without a usable control file, the directory is enumerated.
      configuration.logger.debug("\(BlobStoreError(error, operation: "count", key: nil))")
      return nil
    }
  }
}
