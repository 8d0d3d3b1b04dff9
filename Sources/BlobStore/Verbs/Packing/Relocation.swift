internal import BlobRecord
internal import Logging
internal import Posix

/// A move of a directory's records into packs, or out of them, each under its stripe.
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

  private enum Fate {
    case moved(Int64)
    /// The record was removed, or moved by others.
    case gone
    case unsuited, expired, damaged
    /// Another change holds the record's stripe.
    case busy
  }

  /// Moves a record and records the result, or returns `true` if another change holds its stripe. Throws if the moves
  /// of other records would fail too.
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
      // A record that cannot be read or moved does not affect the others.
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
        // The index grows while no key is held.
        guard try packs().growIfDue() else { return .unsuited }
        return try moveToPack(path)
      }
    }
  }
}

// MARK: - Into a pack

extension Relocation {
  private func moveToPack(_ path: RecordPath) throws -> Fate {
    guard let hold = try Records(core).holdIfAvailable(path.digest) else { return .busy }
    var transaction = KeyTransaction(path, in: open, Records(core), hold)
    let judge = core.judge(at: core.configuration.now())
    let found = try core.lookUpInSubdirectory(of: path, open) { directory in
      try Records(core).recordToRemove(at: path, in: directory, of: open, by: judge)
    }
    if let reason = try Self.reasonToStay(found) { return reason }
    guard let header = Self.header(of: found) else { return .gone }
    guard Records(core).belongsInPack(header, at: path, in: open) else { return .unsuited }
    guard let body = try body(of: path, header) else { return .damaged }
    let records = try packs()
    try unsafe body.withUnsafeBytes { body in
      let body = unsafe PackedBody(body, payload: Int(header.payloadSize))
      try transaction.moveToPack(found, header, body, in: records)
    }
    return .moved(header.fileByteCount)
  }

  /// Never inlined, because the optimizer of Swift 6.3 fails if a noncopyable value is inspected and then borrowed.
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

  /// Returns the payload and extension of a record's file, or `nil` if they do not match the header.
  private func body(of path: RecordPath, _ header: RecordHeader) throws -> [UInt8]? {
    guard case .regular(let file, _) = try Records(core).open(path, in: open, for: .read) else { return nil }
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
    guard let hold = try Records(core).holdIfAvailable(path.digest) else { return .busy }
    var transaction = KeyTransaction(path, in: open, Records(core), hold)
    let judge = core.judge(at: core.configuration.now())
    guard let found = try Records(core).findPacked(path, of: open, by: judge, comparesPayload: true) else {
      return .gone
    }
    switch found.content {
    case .sound: break
    case .expired: return .expired
    case .damaged: return .damaged
    case .unreadable(let error): throw error
    }
    try transaction.moveToFile()
    return .moved(found.byteCount)
  }
}
