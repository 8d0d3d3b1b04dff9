internal import BlobRecord
internal import Posix

/// A draft of a small record. It is written into a pack only after it is counted, so a refused store takes no room.
struct PackedDraft: ~Copyable {
  private(set) var records: PackRecords
  /// Valid for the duration of the store.
  private let body: PackedBody
  private var address: PackAddress?

  init(_ body: PackedBody, in records: consuming PackRecords) {
    self.records = records
    self.body = body
  }
}

extension PackedDraft: RecordDraft {
  /// After a wait, the directory may no longer pack records, or may have other packs.
  static var canWait: Bool { false }

  mutating func prepare(_: BlobStore.Durability.Level) {}

  mutating func move(to _: RecordPath, in _: OpenRoot) {}

  func levelWithoutLookup(_: borrowing PendingStore, _: borrowing KeyTransaction) -> BlobStore.Durability.Level? { nil }

  func predecessor(_ transaction: borrowing KeyTransaction, by judge: RecordJudge) throws -> FoundRecord? {
    try records.recordToReplace(transaction, by: judge)
  }

  mutating func rewrite(_: RecordHeader) {}

  mutating func isReady(for _: BlobStore.Durability.Level, _: RecordHeader) -> Bool { true }

  mutating func commit(
    _ header: RecordHeader, over _: borrowing FoundRecord?, _ before: Predecessor?, isSureOfName: Bool,
    _ level: BlobStore.Durability.Level, _ transaction: inout KeyTransaction
  ) throws -> Bool {
    let path = transaction.path
    guard let room = try records.room(for: header, path, isDurable: header.isLocked || level > .none) else {
      throw PacksAreFull()
    }
    let predecessor = PackedPredecessor(before)
    try records.commit(header, body, as: path, in: room, replacing: predecessor, level, .store, &transaction.hold)
    address = room.address
    try afterPublication { try records.synchronizeUnlinks(of: path, level) }
    return true
  }

  mutating func withdraw(
    _ size: RecordSize, _ level: BlobStore.Durability.Level, _ transaction: inout KeyTransaction
  ) throws {
    if let address {
      _ = try records.remove(transaction.path, at: address.rawValue, level, counting: size, &transaction.hold)
    }
  }

  mutating func finish(_: BlobStore.Durability.Level, at _: RecordPath, of _: OpenRoot) { _ = records.growIfDue() }
}

extension PackRecords {
  /// Returns the record, in a pack or a file, that a packed record replaces. Throws like `Records.recordToReplace`.
  func recordToReplace(_ transaction: borrowing KeyTransaction, by judge: RecordJudge) throws -> FoundRecord? {
    let (path, open) = (transaction.path, transaction.open)
    let found = try find(path, by: judge)
    if found != nil { return found }
    guard try core.hasFile(path, in: open) else { return nil }
    return try core.lookUpInSubdirectory(of: path, open) { directory in
      try Records(core).recordToReplace(at: path, in: directory, of: open, by: judge)
    }
  }
}

extension Records {
  /// Returns whether a payload of this size may be packed, as far as is known before the directory is opened.
  func mayPack(payloadOf byteCount: Int64) -> Bool {
    guard core.configuration.mayPack else { return false }
    guard let packing = core.root.lastOpened?.packing ?? core.configuration.packing else {
      return byteCount <= BlobStore.Packing.largestBound
    }
    return packing.bound.map { byteCount <= $0 } ?? false
  }

  /// Returns the packs for a new record, or `nil` if it belongs into a file.
  ///
  /// - Parameter open: A directory for stores, from `Publisher.madeRoot`.
  func packs(for header: RecordHeader, at path: RecordPath, in open: OpenRoot) throws -> PackRecords? {
    belongsInPack(header, at: path, in: open) ? try madePacks(of: open) : nil
  }

  /// Returns whether a record belongs into a pack, by the directory's settings.
  func belongsInPack(_ header: RecordHeader, at path: RecordPath, in open: OpenRoot) -> Bool {
    guard let bound = open.packing?.bound, !header.flags.contains(.streamIncomplete),
      let payload = Int(exactly: header.payloadSize),
      let byteCount = PackLayout.recordByteCount(
        name: path.fileName.utf8.count, payload: payload, tail: Int(header.extensionEnd ?? 0))
    else { return false }
    return byteCount <= bound
  }

  /// Returns a directory's packs, creating missing ones, or `nil` if processes cannot share memory.
  func madePacks(of open: OpenRoot) throws -> PackRecords? {
    guard let control = try core.controlFiles.controlFile(of: open, makesIt: true),
      let packs = try core.packHolder.packs(of: open, control, makesThem: true)
    else { return nil }
    return PackRecords(packs, of: core, in: open)
  }
}
