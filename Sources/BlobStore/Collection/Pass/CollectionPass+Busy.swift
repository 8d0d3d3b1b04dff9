internal import BlobRecord
internal import Logging
internal import Posix

/// What a pass was to remove, while another change had its stripe.
enum PostponedRemoval {
  /// It was due when it was met, and goes if it still is.
  case due(RecordPath, CollectedRecord.Cause, (RecordEntry) -> Bool)
  /// One of the oldest, which goes if that is still needed.
  case victim(Victim)
}

extension StoreCore {
  /// How long a pass over the whole directory waits for other changes, all in all.
  var patience: Duration { min(configuration.access.lockTimeout, .milliseconds(200)) }
}

/// A pass takes stripes by trying: it has the collector's lock, and a process that has a stripe may be stopped.
extension CollectionPass {
  /// Comes back to what was busy, for one short time in all, and leaves what still is.
  func comeBackToBusy() throws {
    guard busy.count > 0, let open = try store.root.opened() else { return }
    let subdirectories = LastSubdirectory(open)
    var left = busy
    left.comeBack {
      isStopped
    } _: { removal in
      var isBusy = false
      surviving { isBusy = try self.isBusy(removal, in: subdirectories) }
      return isBusy
    }
    guard left.count > 0, !isStopped else { return }
    report.busy = left.count
    report.failed += left.count
    let error = BlobStoreError(busy: left.count, for: store.patience, at: store.root.path)
    store.configuration.logger.warning("\(BlobStoreError(error, operation: "collect", key: nil))")
  }

  private func isBusy(_ removal: PostponedRemoval, in subdirectories: LastSubdirectory) throws -> Bool {
    switch removal {
    case .victim(let victim):
      // Younger ones may have gone for it.
      return try !plan.isDone && isBusy(evicting: victim, in: subdirectories)
    case .due(let path, let cause, let isDue):
      switch try store.removeRecord(at: path, subdirectories, recycling: recycles, if: isDue) {
      case .busy: return true
      case .stays: return false
      case .removed(let removed):
        didRemove(removed, path, cause)
        count(cause)
        report.bytesFreed.saturatingAdd(removed.fileSize)
        isGone(removed.size)
        if !path.subdirectory.isEmpty, try subdirectories.open.directory.removeSubdirectory(path.subdirectory) {
          report.subdirectories += 1
        }
        return false
      }
    }
  }
}
