internal import BlobRecord
internal import Logging
internal import Posix

/// A move of a directory's records into packs, or out of them, each under its stripe.
struct Relocation {
  private let core: StoreCore
  private let open: OpenRoot
  private let destination: KeyTransaction.Engine
  private(set) var report = BlobStore.RelocationReport()

  init(of core: StoreCore, in open: OpenRoot, to destination: KeyTransaction.Engine) {
    self.core = core
    self.open = open
    self.destination = destination
  }

  mutating func run() throws {
    if destination == .packs { _ = try packs() }
    guard let walk = try Records(core).walk() else { return }
    let isPacking = destination == .packs
    walk.skim = { $0.isPacked == isPacking }
    // Busy records are reported at the end.
    var busy = BusyRecords<RecordEntry>(waiting: core.configuration.access.lockTimeout)
    while let item = try walk.next() {
      guard case .record(let entry) = item, (entry.packed != nil) != isPacking else { continue }
      if try isBusy(entry) { busy.add(entry) }
    }
    var failure: (any Error)?
    busy.comeBack {
      failure != nil
    } _: { entry in
      do {
        return try isBusy(entry)
      } catch {
        failure = error
        return false
      }
    }
    if let failure { throw failure }
    guard busy.count > 0 else { return }
    report.failed += busy.count
    log(BlobStoreError(busy: busy.count, for: core.configuration.access.lockTimeout, at: core.root.path), nil)
  }

  private func packs() throws -> PackRecords {
    guard let records = try Records(core).madePacks(of: open) else {
      throw BlobStoreError(
        .invalidConfiguration, "this directory has no packs, because processes share no memory there",
        path: core.root.path)
    }
    return records
  }

  /// Moves a record and records the result, or returns `true` if another change holds its stripe. Throws if the moves
  /// of other records would fail too.
  private mutating func isBusy(_ entry: RecordEntry) throws -> Bool {
    do {
      if let error = entry.accessError { throw error }
      guard let path = entry.path else { return false }
      switch try move(path) {
      case .done(let byteCount)?:
        report.moved += 1
        report.movedBytes.saturatingAdd(byteCount)
      case .gone?: break
      case .unsuited?: report.unsuited += 1
      case .expired?: report.expired += 1
      case .damaged?: report.damaged += 1
      case nil: return true
      }
    } catch let error as FileError where error.isLackOfRoom {
      throw error
    } catch {
      // A record that cannot be read or moved does not affect the others.
      report.failed += 1
      log(error, entry.key)
    }
    return false
  }

  private func log(_ error: any Error, _ key: BlobKey?) {
    core.configuration.logger.warning("not moved: \(BlobStoreError(error, operation: "move", key: key))")
  }

  /// Returns `nil` if another change holds the record's stripe.
  private func move(_ path: RecordPath) throws -> KeyTransaction.Move? {
    // A record that becomes a file has its own attempts, during which its key stays held.
    guard destination == .packs else { return try moveOnce(path) }
    // The index grows between two attempts, while no key is held.
    var loop = DraftLoop(Records(core), DraftAttempts(mayRecycle: false, canWriteAgain: true, mayPack: true))
    return try loop.run(at: path, NoRoom()) { attempt in
      attempt.ways.mayPack ? .some(try moveOnce(path)) : .some(.unsuited)
    }
  }

  private func moveOnce(_ path: RecordPath) throws -> KeyTransaction.Move? {
    guard let hold = try Records(core).holdIfAvailable(path.digest) else { return nil }
    var transaction = KeyTransaction(path, in: open, Records(core), hold)
    return try transaction.move(to: destination)
  }
}
