internal import BlobRecord
internal import Locks
internal import Posix
internal import Synchronization
internal import SystemPackage

/// Admits one collection of a store at a time.
final class CollectionGate: Sendable {
  private let isEntered = Atomic(false)

  func enter() -> Bool {
    guard !isEntered.exchange(true, ordering: .acquiring) else { return false }
    LockOrder.didTake(.collection)
    return true
  }

  func leave() {
    LockOrder.willFree(.collection)
    isEntered.store(false, ordering: .releasing)
  }
}

/// The lock that admits one collection of a directory at a time, across threads and processes.
struct CollectorLock {
  private let core: StoreCore

  init(of core: StoreCore) { self.core = core }

  /// Runs a collection while it excludes all others of the directory, in this process and elsewhere.
  ///
  /// - Parameters:
  ///   - isCache: A Boolean value that indicates whether a missing control file may be created.
  ///   - body: A closure that receives the control file, or `nil` if the file is missing or unusable.
  /// - Throws: `collectionRunning` if another collection is still running after `waitsForOther`.
  func hold<Result>(
    _ options: BlobStore.CollectionOptions, isCache: Bool = true, _ body: (ControlFile?) throws -> Result
  ) throws -> Result {
    var backoff = Backoff(timeout: options.waitsForOther ?? .zero, longestSleep: .milliseconds(100))
    while true {
      do {
        return try holdOnce(makesControlFile: isCache && !options.dryRun, body)
      } catch let error as CollectorIsBusy {
        guard options.isStopped?() != true, options.givesUpWaiting?() != true, !Task.isCancelled, backoff.wait() else {
          throw error.error(at: core.root.path)
        }
      }
    }
  }

  private func holdOnce<Result>(
    makesControlFile: Bool, _ body: (ControlFile?) throws -> Result
  ) throws -> Result {
    guard core.isCollecting.enter() else { throw CollectorIsBusy(process: CurrentProcess.identifier) }
    defer { core.isCollecting.leave() }
    guard let open = try core.root.opened() else { return try body(nil) }
    let byte = ControlLayout.collectorByte..<ControlLayout.collectorByte + 1
    while let control = try controlFile(of: open, makesIt: makesControlFile) {
      switch try control.file.tryLock(byte, in: open.directory) {
      case true:
        defer { control.file.unlock(byte) }
        control.collector = CurrentProcess.identifier
        defer { control.collector = nil }
        return try body(control)
      case false: throw CollectorIsBusy(process: control.collector)
      case nil: open.forget(control)
      }
    }
    // Without a control file, other processes cannot be excluded, but each removal is checked separately.
    return try body(nil)
  }

  private func controlFile(of open: OpenRoot, makesIt: Bool) throws -> ControlFile? {
    do {
      return try core.controlFiles.controlFile(of: open, makesIt: makesIt)
    } catch  where !makesIt {
      // A collection that removes nothing needs no lock, so an unusable control file does not stop it.
      return nil
    }
  }
}

private struct CollectorIsBusy: Error {
  /// The collecting process, or `nil` if it has not recorded its identifier yet.
  let process: Int32?

  func error(at directory: FilePath) -> BlobStoreError {
    let who = process.map { "process \($0)" } ?? "another process"
    return BlobStoreError(
      .collectionRunning, "\(who) is collecting this directory", path: directory, runningProcess: process)
  }
}

extension ControlFile {
  fileprivate var collector: Int32? {
    get {
      guard isMapped, let process = Int32(exactly: word(at: ControlLayout.collectorProcessOffset)) else { return nil }
      return process > 0 ? process : nil
    }
    set {
      guard isMapped else { return }
      setWord(Int64(newValue ?? 0), at: ControlLayout.collectorProcessOffset)
    }
  }
}
