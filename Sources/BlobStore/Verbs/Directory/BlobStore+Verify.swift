internal import BlobRecord
internal import Logging
internal import Posix

extension BlobStore {
  /// Verifies the header, size, payload checksum and key digest of every record, including expired ones.
  ///
  /// - Parameters:
  ///   - policy: The treatment of damaged files of any kind, including records of later versions.
  ///   - visit: A closure that receives each finding immediately.
  /// - Throws: `notACache` for a repair if nothing shows that the directory is a cache; `fileSystem`.
  /// - Complexity: Reads every byte of the directory once, 256 KiB at a time.
  public func verify(
    repairing policy: DamagePolicy = .report, _ visit: (VerificationFinding) -> Void = { _ in }
  ) throws(BlobStoreError) -> VerificationReport {
    try withErrorContext("verify") { try Records(core).verify(repairing: policy, visit) }
  }
}

extension Records {
  fileprivate func verify(
    repairing policy: BlobStore.DamagePolicy, _ visit: (BlobStore.VerificationFinding) -> Void
  ) throws -> BlobStore.VerificationReport {
    if policy != .report { try requireCache() }
    var report = BlobStore.VerificationReport()
    func tell(_ finding: BlobStore.VerificationFinding) {
      report.add(finding)
      visit(finding)
    }
    guard let walk = try walk() else { return report }
    // Busy records are reported at the end.
    var busy = BusyRecords<RecordEntry>(waiting: core.configuration.access.lockTimeout)
    while let item = try walk.next() {
      let finding: BlobStore.VerificationFinding
      switch item {
      case .record(let met):
        let entry = try verified(met)
        guard let repaired = repaired(entry, policy) else {
          busy.add(entry)
          continue
        }
        finding = repaired
      case .temporary(let name):
        finding = .temporary(walk.withCurrentDirectory { $0.path.appending(name) })
      case .foreign(let name): finding = .foreign(core.root.path.appending(name))
      case .foreignRecord(let record): finding = .foreignRecord(record)
      case .covered, .endOfSubdirectory: continue
      }
      tell(finding)
    }
    busy.comeBack(unless: { false }) { entry in
      guard let finding = repaired(entry, policy) else { return true }
      tell(finding)
      return false
    }
    for entry in busy.kept {
      logNotRepaired(entry, BlobStoreError(busy: 1, for: core.configuration.access.lockTimeout, at: core.root.path))
      tell(.record(entry))
    }
    return report
  }

  private func logNotRepaired(_ entry: RecordEntry, _ error: any Error) {
    core.configuration.logger.warning("not repaired: \(BlobStoreError(error, operation: "verify", key: entry.key))")
  }

  /// Applies the policy to a file that is still damaged under its stripe, or returns `nil` if its stripe is locked.
  private func repaired(_ entry: RecordEntry, _ policy: BlobStore.DamagePolicy) -> BlobStore.VerificationFinding? {
    guard policy != .report, entry.state == .damaged, let path = entry.path else { return .record(entry) }
    do {
      guard let hold = try holdIfAvailable(path.digest, makesControlFile: true) else { return nil }
      guard case .damaged = try verifyRecord(path), let open = try core.root.opened() else { return .record(entry) }
      var transaction = try transaction(of: path, in: open, hold)
      try transaction.discard(policy)
      return .repaired(entry)
    } catch {
      // A file that is in use or cannot be removed does not affect the others.
      logNotRepaired(entry, error)
      return .record(entry)
    }
  }

  /// Returns the entry after its payload was verified.
  private func verified(_ entry: RecordEntry) throws -> RecordEntry {
    guard let path = entry.path, entry.state != .unreadable else { return entry }
    do {
      var reading = try verifyRecord(path)
      if case .damaged = reading { reading = try verifyRecord(path) }
      if case .damaged = reading, let hold = try holdIfAvailable(path.digest) {
        defer { extendLifetime(hold) }
        reading = try verifyRecord(path)
      }
      // A record that was replaced or removed since the listing is judged by its earlier state. Damage that does not
      // occur again was a concurrent change.
      switch reading {
      case .damaged(let error): return entry.damaged(error)
      case .live where entry.state == .damaged: return try listed(path) ?? entry
      case .live, .absent: return entry
      }
    } catch {
      return RecordEntry(unreadable: entry.file, path: path, BlobStoreError(error, operation: "verify", key: entry.key))
    }
  }

  /// Returns the current entry at a path, or `nil` if it is not a sound record.
  private func listed(_ path: RecordPath) throws -> RecordEntry? {
    guard let open = try core.root.opened() else { return nil }
    let now = core.configuration.now()
    if let found = try findPacked(path, of: open, by: core.judge(at: now)) {
      return found.header == nil ? nil : core.entry(of: found, at: now)
    }
    let path = try core.resolved(path, in: open)
    return try core.lookUpInSubdirectory(of: path, open) { directory in
      guard case .record(let found) = find(path, in: directory, of: open, by: core.judge(at: now)),
        found.header != nil
      else { return nil }
      return core.entry(of: found, at: now)
    }
  }
}
