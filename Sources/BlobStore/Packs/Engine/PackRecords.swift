internal import BlobRecord
internal import Posix
internal import SystemPackage

/// The engine for the packed records of a directory, next to `FileRecords`.
///
/// A read holds no lock, and reads the entry of the index again afterwards. A change holds its key, and announces
/// each step in the stripe (Spec/Packs.md).
struct PackRecords: RecordEngine {
  let core: StoreCore
  let open: OpenRoot
  let control: ControlFile
  /// The packs, with the last known index in force.
  private(set) var packs: Packs

  init(_ packs: Packs, of core: StoreCore, in open: OpenRoot) {
    self.core = core
    self.open = open
    control = packs.control
    self.packs = packs
  }

  /// A Boolean value that indicates whether enough sequences are left, even for concurrent stores. Only a forged record
  /// or a damaged word can use up 55 bits.
  var hasSequences: Bool { control.packSequence >> (PackedHeader.sequenceBitCount - 1) == 0 }

  var directoryNumber: UInt64 {
    get throws(FileError) { try packs.files.directory.subdirectory.directory.status().inodeNumber }
  }

  /// Switches to the index that is in force now. Throws `busy` if it takes too long to rebuild.
  mutating func follow() throws {
    guard let packs = try core.packHolder.packs(of: open, control, makesThem: true) else {
      guard control.isMapped else {
        throw BlobStoreError(.busy, "another process makes the index of the packs anew", path: packs.path)
      }
      throw BlobStoreError(.internalInconsistency, "the packs are gone", path: packs.path)
    }
    self.packs = packs
  }
}

extension Packs {
  var path: FilePath { files.directory.path }

  func path(of address: PackAddress) -> FilePath { path.appending(PackFile.name(address.pack)) }
}

struct PackedFinding {
  let slot: IndexSlot
  let entry: IndexEntry
  let header: PackedHeader
  let lastUse: UnixTime

  /// Returns the header of the record as a file. If the ttl is 0, its update time is the later of update and use.
  func recordHeader(_ name: RecordPath) -> RecordHeader { recordHeader(nameDigest: name.digest) }

  func recordHeader(nameDigest: UInt64) -> RecordHeader {
    var header = header.recordHeader(nameDigest: nameDigest)
    if header.ttl == 0 { header.updateTime = max(header.updateTime, UInt64(clamping: lastUse.seconds)) }
    return header
  }

  var fileState: FileState {
    FileState(
      packedAt: entry.address.rawValue, sequence: header.sequence, lastUse: UInt64(clamping: lastUse.seconds))
  }
}

extension PackedPlace {
  init(_ found: PackedFinding) { self.init(found.entry.address, sequence: found.header.sequence) }

  init(_ address: PackAddress, sequence: UInt64) {
    self.init(
      pack: address.pack, chunk: address.chunk, offset: address.offset, sequence: sequence, address: address.rawValue)
  }

  /// The path of the pack relative to the root.
  public var file: String { PackDirectory.name + "/" + PackFile.name(pack) }
}

struct PackedContent {
  var header: RecordHeader
  var body: [UInt8]

  func withBody<Result>(_ body: (PackedBody) throws -> Result) rethrows -> Result {
    try unsafe self.body.withUnsafeBytes { try unsafe body(PackedBody($0, payload: Int(header.payloadSize))) }
  }

  var fileBytes: [UInt8] {
    header.withEncodedBytes { head in unsafe head.withUnsafeBytes { unsafe Array($0) } + body }
  }
}

enum PackLookupResult<Result> {
  case absent
  case found(Result)
  /// An entry leads to damaged bytes, which may be a record of the name.
  case broken(RecordError, PackAddress)
}

// MARK: - Looking up

extension PackRecords {
  /// Looks up the record of a name and passes its bytes to `lookup`.
  ///
  /// The result is valid only if the entry is unchanged afterwards, as a record may be replaced concurrently.
  /// System call: `pread(2)`. A missing name needs none, except for about one name in 65,536.
  ///
  /// - Parameter mayBlock: `false` to throw `CachedLookupFailure` instead of waiting for the disk or retrying.
  func lookUp<Lookup: PackedLookup>(
    _ name: RecordPath, mayBlock: Bool = true, _ lookup: Lookup
  ) throws -> PackLookupResult<Lookup.Result> {
    if let result = try lookUpOnce(name, mayBlock: mayBlock, lookup) { return result }
    guard mayBlock else { throw CachedLookupFailure.notCached }
    return try lookUpAgain(name, lookup)
  }

  /// The number of retries after concurrent changes of the entry, before the lookup takes the key's stripe.
  private static let lookupsBesideChanges = 64

  /// Repeats the lookup in the index in force, and finally under the key's stripe, where no entry changes.
  @inline(never)
  private func lookUpAgain<Lookup: PackedLookup>(
    _ name: RecordPath, _ lookup: Lookup
  ) throws -> PackLookupResult<Lookup.Result> {
    var records = self
    for _ in 0..<Self.lookupsBesideChanges {
      if !records.packs.isInForce { try records.follow() }
      if let result = try records.lookUpOnce(name, mayBlock: true, lookup) { return result }
    }
    let hold = try core.stripes.hold(name.digest)
    defer { extendLifetime(hold) }
    while true {
      if !records.packs.isInForce { try records.follow() }
      if let result = try records.lookUpOnce(name, mayBlock: true, lookup) { return result }
    }
  }

  /// Returns `nil` if an entry has changed concurrently, or the index is no longer in force.
  private func lookUpOnce<Lookup: PackedLookup>(
    _ name: RecordPath, mayBlock: Bool, _ lookup: Lookup
  ) throws -> PackLookupResult<Lookup.Result>? {
    let index = packs.index
    var probe = index.probe(name.digest)
    var broken: (RecordError, PackAddress)?
    while let (slot, entry) = probe.next(in: index) {
      switch try examine(of: entry, slot, of: name, mayBlock: mayBlock, lookup) {
      case .found(let result): return packs.isInForce ? .found(result) : nil
      case .changed: return nil
      case .ofAnother: continue
      case .broken(let error): broken = (error, entry.address)
      }
    }
    guard packs.isInForce else { return nil }
    return broken.map { .broken($0.0, $0.1) } ?? .absent
  }

  private enum Examination<Result> {
    case found(Result)
    case changed
    case ofAnother
    case broken(RecordError)
  }

  private func examine<Lookup: PackedLookup>(
    of entry: IndexEntry, _ slot: IndexSlot, of name: RecordPath, mayBlock: Bool, _ lookup: Lookup
  ) throws -> Examination<Lookup.Result> {
    let address = entry.address
    let byteCount = entry.readByteCount
    guard byteCount > 0, let pack = try pack(address.pack, mayBlock: mayBlock) else { return .ofAnother }
    return try unsafe withUnsafeTemporaryAllocation(byteCount: byteCount, alignment: 8) { buffer in
      let salt = pack.deadBits(ofChunk: address.chunk).salt(ofQuarter: address.quarter)
      let time = packs.index.time(at: slot)
      let count =
        try unsafe mayBlock ? pack.readRecord(into: buffer, at: address) : pack.readCached(into: buffer, at: address)
      let bytes = unsafe UnsafeRawBufferPointer(rebasing: buffer[..<count])
      let span = unsafe RawSpan(_unsafeBytes: bytes)
      guard let salt, let header = PackedHeader(decoding: span, at: address, salt: salt), header.byteCount <= count
      else {
        guard packs.index.isUnchanged(entry, at: slot) else { return .changed }
        return .broken(PackedHeader.breach(of: span, at: address, salt: salt))
      }
      guard unsafe name.fileName.hasUTF8(UnsafeRawBufferPointer(rebasing: bytes[header.nameRange])) else {
        return packs.index.isUnchanged(entry, at: slot) ? .ofAnother : .changed
      }
      let found = PackedFinding(
        slot: slot, entry: entry, header: header, lastUse: IndexLayout.use(at: time))
      let result = try unsafe lookup.result(of: found, name, bytes, in: self)
      // A header that is written in place leaves the entry unchanged, and would be reported with a later time of use.
      return packs.index.isUnchanged(entry, at: slot) && packs.index.time(at: slot) == time ? .found(result) : .changed
    }
  }

  private func pack(_ number: Int, mayBlock: Bool) throws -> PackFile? {
    guard !mayBlock else { return try packs.files.pack(number) }
    guard let pack = packs.files.openedPack(number) else { throw CachedLookupFailure.notCached }
    return pack
  }

  /// Returns whether the index has an entry that may belong to a name, without a system call.
  func mayHold(_ name: RecordPath) -> Bool { mayHold(nameDigest: name.digest) }

  func mayHold(nameDigest: UInt64) -> Bool {
    var probe = packs.index.probe(nameDigest)
    return probe.next(in: packs.index) != nil || !packs.isInForce
  }
}

// MARK: - Reading

extension PackRecords {
  /// Returns the record as a file: 64 bytes of header, payload and extension. Throws `DamagedRecord`.
  func asFile(_ name: RecordPath) throws -> [UInt8]? {
    try content(of: name)?.1.fileBytes
  }

  func content(of name: RecordPath) throws -> (PackedFinding, PackedContent)? {
    switch try lookUp(name, PackedCopyLookup()) {
    case .absent: return nil
    case .found(let result): return result
    case .broken(let error, let address): throw DamagedRecord(error: error, path: packs.path(of: address))
    }
  }
}

// MARK: - Finding

extension PackRecords {
  func find(
    _ name: RecordPath, in _: borrowing Directory, of _: OpenRoot, by judge: RecordJudge, readsExtension _: Bool
  ) throws -> Finding {
    guard let found = try find(name, by: judge) else { return .absent }
    return .record(found)
  }

  /// Returns the record of a name with the facts that a change needs, and optionally checks the payload.
  func find(_ name: RecordPath, by judge: RecordJudge, comparesPayload: Bool = false) throws -> FoundRecord? {
    switch try lookUp(name, PackedPartsLookup(comparesPayload: comparesPayload)) {
    case .absent: return nil
    case .found(let parts): return record(name, parts, by: judge)
    case .broken(let error, let address):
      let state = FileState(packedAt: address.rawValue, sequence: 0, lastUse: 0)
      let facts = FileFacts(
        packed: RecordHeader(updateTime: 0, payloadSize: 0), byteCount: Int64(RecordHeader.byteCount),
        owner: open.ownership.ownerOfNewFiles, state)
      return FoundRecord(name, damagedAt: PackedPlace(address, sequence: 0), error, facts)
    }
  }

  func record(_ name: RecordPath, _ found: PackedFinding, _ bytes: RawSpan, by judge: RecordJudge) -> FoundRecord {
    record(name, PackedParts(of: found, bytes, comparesPayload: false), by: judge)
  }

  private func record(_ name: RecordPath, _ parts: PackedParts, by judge: RecordJudge) -> FoundRecord {
    let found = parts.found
    let header = found.recordHeader(name)
    let facts = FileFacts(
      packed: header, byteCount: header.fileByteCount, owner: open.ownership.ownerOfNewFiles, found.fileState)
    return FoundRecord(
      name, packed: header, facts, at: PackedPlace(found), by: judge,
      parts.kept, payloadBreach: parts.payloadBreach)
  }

  /// Returns whether the packs have a record of a name, even a damaged one. A file of the name is not current then.
  func holds(_ name: RecordPath) throws -> Bool {
    guard mayHold(name) else { return false }
    return switch try lookUp(name, PackedPresenceLookup()) {
    case .absent: false
    case .found, .broken: true
    }
  }
}

// MARK: - Export

extension PackRecords {
  /// Returns a record as a file, or the bytes at its address if its header is damaged.
  func copy(of name: RecordPath, at address: PackAddress) throws -> [UInt8]? {
    do {
      return try asFile(name)
    } catch is DamagedRecord {
      guard let entry = packs.index.find(name.digest, at: address)?.entry,
        let pack = try packs.files.pack(address.pack)
      else { return nil }
      var bytes = [UInt8](repeating: 0, count: entry.readByteCount)
      let count = try unsafe bytes.withUnsafeMutableBytes { try unsafe pack.read(into: $0, at: address) }
      return Array(bytes.prefix(count))
    }
  }
}
