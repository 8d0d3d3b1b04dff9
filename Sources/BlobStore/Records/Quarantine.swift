internal import BlobRecord
internal import Locks
internal import Logging
internal import Posix
internal import SystemPackage

/// The hidden directory to which damaged files are moved for inspection.
struct Quarantine: ~Copyable {
  static let directoryName = ".quarantine"

  let directory: Directory
  /// The owners whose files belong to this cache, and count toward the limits.
  let owners: FileOwners
  /// The maximum total size in bytes, above which the oldest files are removed.
  let byteLimit: Int64

  struct File {
    let name: String
    let byteCount: Int64
    let modifiedSeconds: Int64
  }

  func files() throws -> [File] {
    var files: [File] = []
    var entries = try directory.entries()
    while let entry = try entries.next() {
      guard entry.isNameExact, let status = try directory.status(of: entry.name), status.type == .regular,
        owners.include(ownerOf: status)
      else { continue }
      files.append(
        File(name: entry.name, byteCount: status.size, modifiedSeconds: status.modifiedSeconds))
    }
    return files
  }

  /// The maximum number of files, so that a person can inspect them.
  static let fileLimit = 4096

  /// The removed files and the first error, which does not prevent the removal of the other files.
  typealias Removal = (files: Int64, bytes: Int64, failure: FileError?)

  /// Removes the oldest files until the quarantine is within its limits. The remaining bytes that it returns do not
  /// include files that cannot be removed, so that no record is evicted because of them.
  func trim(dryRun: Bool = false) throws -> (files: Int64, bytes: Int64, failure: FileError?, bytesLeft: Int64) {
    var files = try files()
    var byteCount = files.reduce(Int64(0)) { $0.saturatingAdding($1.byteCount) }
    var removed: Removal = (0, 0, nil)
    files.sort { ($0.modifiedSeconds, $0.name) > ($1.modifiedSeconds, $1.name) }
    while byteCount > byteLimit || files.count > Self.fileLimit, let oldest = files.popLast() {
      do throws(FileError) {
        if !dryRun { _ = try directory.unlink(oldest.name) }
      } catch {
        removed.failure = removed.failure ?? error
        byteCount.saturatingAdd(-oldest.byteCount)
        continue
      }
      removed.files += 1
      removed.bytes.saturatingAdd(oldest.byteCount)
      byteCount.saturatingAdd(-oldest.byteCount)
    }
    return (removed.files, removed.bytes, removed.failure, byteCount)
  }

  func removeAll() throws -> Removal {
    var removed: Removal = (0, 0, nil)
    for file in try files() {
      do throws(FileError) {
        guard try directory.unlink(file.name) else { continue }
      } catch {
        removed.failure = removed.failure ?? error
        continue
      }
      removed.files += 1
      removed.bytes.saturatingAdd(file.byteCount)
    }
    return removed
  }
}

extension Records {
  /// Returns the quarantine, or `nil` if it does not exist or is not a directory of this cache.
  func quarantine() throws -> Quarantine? {
    do {
      guard let open = try core.root.opened(),
        let directory = try open.directory.openSubdirectory(Quarantine.directoryName)
      else { return nil }
      guard try open.ownership.owners.distrust(of: directory.status()) == nil else { return nil }
      return Quarantine(directory: directory, owners: open.ownership.owners, byteLimit: quarantineByteLimit)
    } catch let error as FileError where error.errno == .notDirectory || error.errno == .tooManySymbolicLinkLevels {
      return nil
    }
  }

  /// One hundredth of the size limit, or 64 MiB without a size limit.
  var quarantineByteLimit: Int64 { core.configuration.limits.size.map { $0 / 100 } ?? 64 << 20 }

  /// Applies the damage policy of loads to a damaged file, unless its stripe is busy. Failures are only logged,
  /// because the load reports the damage itself.
  ///
  /// Some kinds of damage are only reported. After `keyMismatch`, the blob may be intact under another name. A sound
  /// header with another size or with unknown flags may have been written by a later version of this library.
  func follow(_ policy: BlobStore.DamagePolicy, for error: RecordError, at path: RecordPath) throws {
    switch error {
    case .keyMismatch, .wrongHeaderSize, .unsupportedFlags, .recordIsStreamAndBusy: return
    default: break
    }
    guard policy != .report else { return }
    do {
      guard var transaction = try transactionIfAvailable(of: path),
        case .damaged(let settled) = try verifyRecord(path), settled == error
      else { return }
      try transaction.discard(policy)
    } catch {
      core.configuration.logger.warning(
        "a damaged file was left in place: \(BlobStoreError(error, operation: policy.rawValue, key: nil))")
    }
  }

  fileprivate func madeQuarantine(in open: OpenRoot) throws -> Quarantine {
    let directory = try open.openOrMakeSubdirectory(Quarantine.directoryName)
    if let distrust = try open.ownership.owners.distrust(of: directory.status()) {
      throw BlobStoreError.foreignDirectory(at: directory.path, distrust)
    }
    return Quarantine(directory: directory, owners: open.ownership.owners, byteLimit: quarantineByteLimit)
  }

  fileprivate func trim(_ quarantine: borrowing Quarantine) {
    do {
      if let failure = try quarantine.trim().failure { throw failure }
    } catch {
      // The next collection trims the quarantine too.
      LockOrder.outside {
        core.configuration.logger.warning(
          "the quarantine is too large: \(BlobStoreError(error, operation: "trim", key: nil))")
      }
    }
  }
}

extension KeyTransaction {
  /// Removes the record or moves it to the quarantine.
  mutating func discard(_ policy: BlobStore.DamagePolicy) throws {
    guard policy != .report else { return }
    let (open, level) = (open, level(concernsLock: false))
    if let found = try records.findPacked(path, of: open, by: RecordJudge()) {
      guard policy == .quarantine else {
        _ = try remove(found, level, recycling: false, in: open.directory)
        return
      }
      let quarantine = try records.madeQuarantine(in: open)
      try records.movePacked(found, to: OpenSubdirectory(quarantine.directory.reopened()), level, of: open, &hold)
      records.trim(quarantine)
      return
    }
    guard let directory = try open.openSubdirectory(path.subdirectory),
      case .record(let found) = records.find(path, in: directory, of: open, by: RecordJudge())
    else { return }
    guard policy == .quarantine else {
      _ = try remove(found, level, recycling: false, in: directory)
      return
    }
    let quarantine = try records.madeQuarantine(in: open)
    hold.beginPayloadChange(level)
    try directory.rename(path.fileName, to: path.fileName, in: quarantine.directory)
    hold.count(from: found.size, to: nil)
    records.trim(quarantine)
  }
}
