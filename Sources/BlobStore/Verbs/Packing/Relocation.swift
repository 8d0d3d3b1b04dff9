internal import BlobRecord
internal import Logging
internal import Posix

/// Moves the records of a directory into packs, or out of them, each under its stripe.
struct Relocation {
  enum Destination {
    case packs, files
  }

  private let core: StoreCore
  private let open: OpenRoot
  private let destination: Destination
  private(set) var report = BlobStore.RelocationReport()

  init(of core: StoreCore, in open: OpenRoot, to destination: Destination) {
    self.core = core
    self.open = open
    self.destination = destination
  }

  mutating func run() throws {
    if destination == .packs { _ = try packs() }
    guard let walk = try core.walk() else { return }
    let isPacking = destination == .packs
    walk.skim = { $0.isPacked == isPacking }
    // Told of at the end.
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

  /// The packs, made where they are missing.
  private func packs() throws -> PackRecords {
    guard let records = try core.madePacks(of: open) else {
      throw BlobStoreError(
        .invalidConfiguration, "this directory has no packs, because processes share no memory there",
        path: core.root.path)
    }
    return records
  }

  /// The fate of a record that a walk has met.
  private enum Fate {
    case moved(Int64)
    /// It has gone, or has been moved by others.
    case gone
    case unsuited, expired, damaged
    /// Another change has its stripe.
    case busy
  }

  /// Moves a record, and notes what has become of it.
  ///
  /// - Returns: whether another change has its stripe.
  /// - Throws: where no other record could be moved either.
  private mutating func isBusy(_ entry: RecordEntry) throws -> Bool {
    do {
      if let error = entry.accessError { throw error }
      guard let path = entry.path else { return false }
      switch try move(path) {
      case .moved(let byteCount):
        report.moved += 1
        report.movedBytes.saturatingAdd(byteCount)
      case .gone: break
      case .unsuited: report.unsuited += 1
      case .expired: report.expired += 1
      case .damaged: report.damaged += 1
      case .busy: return true
      }
    } catch let error as FileError where error.isLackOfRoom {
      throw error
    } catch {
      // One that cannot be read or moved does not keep the others from it.
      report.failed += 1
      log(error, entry.key)
    }
    return false
  }

  private func log(_ error: any Error, _ key: BlobKey?) {
    core.configuration.logger.warning("not moved: \(BlobStoreError(error, operation: "move", key: key))")
  }

  private func move(_ path: RecordPath) throws -> Fate {
    switch destination {
    case .files: return try moveToFile(path)
    case .packs:
      do {
        return try moveToPack(path)
      } catch is PacksAreFull {
        return .unsuited
      } catch is IndexIsFull {
        // It becomes larger while no key is held.
        guard try packs().growIfDue() else { return .unsuited }
        return try moveToPack(path)
      }
    }
  }
}

// MARK: - Into a pack

extension Relocation {
  private func moveToPack(_ path: RecordPath) throws -> Fate {
    guard let hold = try core.holdIfAvailable(path.digest) else { return .busy }
    var transaction = KeyTransaction(path, in: open, core.records, hold)
    let judge = core.judge(at: core.configuration.now())
    let found = try core.lookInSubdirectory(of: path, open) { directory in
      try core.recordToRemove(at: path, in: directory, of: open, by: judge)
    }
    if let reason = try Self.reasonToStay(found) { return reason }
    guard let header = Self.header(of: found) else { return .gone }
    guard core.packs(header, path, in: open) else { return .unsuited }
    guard let body = try body(of: path, header) else { return .damaged }
    let records = try packs()
    try unsafe body.withUnsafeBytes { body in
      var draft = unsafe PackedDraft(PackedBody(body, payload: Int(header.payloadSize)), in: records)
      _ = try draft.commit(
        header, over: found, Predecessor(found), isSureOfName: true, transaction.level(concernsLock: header.isLocked),
        &transaction)
    }
    return .moved(header.fileByteCount)
  }

  /// Never inlined: the optimizer of Swift 6.3 fails where a value that cannot be copied is looked into and then lent.
  @inline(never)
  private static func reasonToStay(_ found: borrowing FoundRecord?) throws -> Fate? {
    switch found {
    case nil: return .gone
    case let found?:
      guard found.packed == nil else { return .gone }
      switch found.content {
      case .sound: return nil
      case .expired: return .expired
      case .damaged: return .damaged
      case .unreadable(let error): throw error
      }
    }
  }

  @inline(never)
  private static func header(of found: borrowing FoundRecord?) -> RecordHeader? {
    switch found {
    case nil: nil
    case let found?: found.header
    }
  }

  /// Payload and extension of a record that is a file.
  ///
  /// - Returns: nil if they are not what was stored.
  private func body(of path: RecordPath, _ header: RecordHeader) throws -> [UInt8]? {
    guard case .regular(let file, _) = try core.records.open(path, in: open, for: .read) else { return nil }
    let body = try file.bytes(in: RecordHeader.byteCount..<Int(header.fileByteCount))
    guard body.count == Int(header.fileByteCount) - RecordHeader.byteCount,
      header.payloadChecksum
        == CRC32.checksum(of: unsafe body.span.bytes.extracting(first: Int(header.payloadSize)))
    else { return nil }
    return body
  }
}

// MARK: - Out of a pack

extension Relocation {
  private func moveToFile(_ path: RecordPath) throws -> Fate {
    guard var hold = try core.holdIfAvailable(path.digest) else { return .busy }
    let judge = core.judge(at: core.configuration.now())
    guard let found = try core.records.findPacked(path, of: open, by: judge, comparesPayload: true) else {
      return .gone
    }
    switch found.content {
    case .sound: break
    case .expired: return .expired
    case .damaged: return .damaged
    case .unreadable(let error): throw error
    }
    try core.records.moveToFile(path, in: open, &hold)
    return .moved(found.byteCount)
  }
}
