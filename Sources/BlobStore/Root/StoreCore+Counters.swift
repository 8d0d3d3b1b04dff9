internal import Logging
internal import Posix

extension StoreCore {
  func usageEstimate() throws -> BlobStore.UsageEstimate? {
    guard let open = try root.opened() else { return BlobStore.UsageEstimate() }
    guard let control = countersFile(of: open), control.countersAreKnown else { return nil }
    return control.counters
  }

  /// Whether this library, of this version or a later one, has changed the directory.
  func hasControlFile() throws -> Bool {
    guard let open = try root.opened(), let control = countersFile(of: open) else { return false }
    return !control.file.isDamaged && !control.file.mayBePlanted
  }

  func countersFile(of open: OpenRoot) -> ControlFile? {
    do {
      return try open.controlFile(configuration.logger)
    } catch {
      // A directory without a usable control file is enumerated all the same.
      configuration.logger.debug("\(BlobStoreError(error, operation: "count", key: nil))")
      return nil
    }
  }
}
