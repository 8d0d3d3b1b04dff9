public import BlobRecord
internal import Posix
internal import SystemPackage

extension BlobStore {
  /// Returns the blob stored under a key, if it is live.
  ///
  /// A load of a record with ttl 0 advances its update time to now, at most once a second. It writes only the 64
  /// bytes of the header, and only if it does not have to wait. System calls of a hit: open, fstat, read, close. Up
  /// to 8 KiB, ordinary users need no fstat. Above 1 MiB, there is one more call. Advancing the update time takes
  /// eight more. All cases: Spec/Performance.md.
  ///
  /// - Parameters:
  ///   - key: The key of the record.
  ///   - touching: A Boolean value that indicates whether the update time is advanced.
  /// - Returns: The blob, or `nil` if no record exists, or it is expired and not locked.
  /// - Throws: `damaged`, after `damagePolicy` was applied; `payloadTooLarge`; `fileSystem`; `invalidKey`.
  public func load(_ key: BlobKey, touching: Bool = true) throws(BlobStoreError) -> Blob? {
    try withErrorContext("load", key) {
      var receipt = LoadReceipt()
      return try Records(core).blob(for: key, at: try core.path(for: key), touching: touching, &receipt)
    }
  }

  /// Loads a blob for a memory tier, which has already resolved the key to its path.
  package func load(
    _ key: BlobKey, at path: RecordPath, touching: Bool, _ receipt: inout LoadReceipt
  ) throws(BlobStoreError) -> Blob? {
    try withErrorContext("load", key) { try Records(core).blob(for: key, at: path, touching: touching, &receipt) }
  }

  /// Returns the blob that a load at an earlier time would find in the current record, which is not touched.
  package func load(_ key: BlobKey, liveAt time: UnixTime) throws(BlobStoreError) -> Blob? {
    try withErrorContext("load", key) {
      var receipt = LoadReceipt()
      return try Records(core).blob(for: key, at: try core.path(for: key), touching: false, now: time, &receipt)
    }
  }

  /// Returns the blob of one of the live keys that begin with a prefix.
  ///
  /// - Parameters:
  ///   - prefix: The prefix of the keys, or empty for all keys.
  ///   - touching: A Boolean value that indicates whether the update time is advanced.
  ///   - choose: A closure that chooses one of the unordered keys. It is only called if there are any.
  /// - Returns: The blob, or `nil` if no key matches, `choose` returns `nil`, or the record was removed in the
  ///   meantime.
  /// - Complexity: One header read for each record that begins with the first two characters of the prefix.
  public func load(
    prefix: String, touching: Bool = true, choosing choose: ([BlobKey]) -> BlobKey?
  ) throws(BlobStoreError) -> Blob? {
    try withErrorContext("load") {
      var keys: [BlobKey] = []
      for entry in try Records(core).recordSequence(prefix: prefix) {
        // A file that the caller may not read is not a candidate. Any other unreadable file might be one.
        if let error = entry.accessError, entry.path == nil || !error.isLackOfPermission { throw error }
        if let key = entry.key, entry.state == .live || entry.state == .locked { keys.append(key) }
      }
      guard !keys.isEmpty, let chosen = choose(keys) else { return nil }
      var receipt = LoadReceipt()
      return try Records(core).blob(for: chosen, at: try core.path(for: chosen), touching: touching, &receipt)
    }
  }

  /// Returns the header of a key's live record, without reading the payload or touching the record.
  public func header(for key: BlobKey) throws(BlobStoreError) -> RecordHeader? {
    try withErrorContext("header", key) { try Records(core).liveHeader(for: key) }
  }

  /// Returns whether a load would find a record, without reading the payload or touching the record.
  public func contains(_ key: BlobKey) throws(BlobStoreError) -> Bool {
    try withErrorContext("contains", key) { try Records(core).liveHeader(for: key) != nil }
  }
}

// MARK: - Reading

extension Records {
  fileprivate func blob(
    for key: BlobKey, at path: RecordPath, touching: Bool, now time: UnixTime? = nil, _ receipt: inout LoadReceipt
  ) throws -> Blob? {
    let now = time ?? core.configuration.now()
    var place: OpenRoot?
    let lookup = WholeLookup(key: key, path: path, now: now)
    guard let (header, content) = try readUntilConsistent(lookup, core.configuration.damagePolicy, &place) else {
      core.uses.count(.miss, of: path.digest, isUse: touching, at: now, in: place)
      return nil
    }
    core.uses.count(.hit(byteCount: content.payload.count), of: path.digest, isUse: touching, at: now, in: place)
    if touching, header.ttl == 0, header.lastUpdate < now {
      if let use = content.use {
        use.note(at: now)
        receipt.update = now
      } else {
        receipt.update = touchAfterLoad(path, now)
      }
    }
    return Blob(key: key, payload: content.payload, header: header, extendedData: content.extendedData)
  }

  func liveHeader(for key: BlobKey) throws -> RecordHeader? {
    var place: OpenRoot?
    let lookup = HeaderLookup(path: try core.path(for: key), now: core.configuration.now())
    return try readUntilConsistent(lookup, .report, &place)?.0
  }

  /// Reads until the result is reliable. A change in place may be observed half done, so a record that appears
  /// damaged is read again, and then once more under its stripe if that is free.
  func readUntilConsistent<Lookup: RecordLookup>(
    _ lookup: Lookup, _ policy: BlobStore.DamagePolicy, _ place: inout OpenRoot?
  ) throws -> (RecordHeader, Lookup.Content)? {
    switch try readAtStableGeneration(lookup, .first, &place) {
    case .absent: return nil
    case .live(let header, let content): return (header, content)
    case .damaged: break
    }
    var reading = try readAtStableGeneration(lookup, .again, &place)
    if case .damaged = reading, let hold = try holdIfAvailable(lookup.path.digest) {
      defer { extendLifetime(hold) }
      reading = try readAtStableGeneration(lookup, .again, &place)
    }
    switch reading {
    case .absent: return nil
    case .live(let header, let content): return (header, content)
    case .damaged(var error):
      if error == .recordIsStreamAndBusy, case .damaged(let settled) = try verifyRecord(lookup.path) { error = settled }
      try follow(policy, for: error, at: lookup.path)
      throw DamagedRecord(
        error: error, path: core.root.path.appending(resolved(lookup.path, place).relative))
    }
  }

  /// Returns a record's path for a message.
  private func resolved(_ path: RecordPath, _ place: OpenRoot?) -> RecordPath {
    place.flatMap { try? core.resolved(path, in: $0) } ?? path.placed(by: core.lastArrangement)
  }

  /// Reads the file at a record's path, if it was still the record when it was opened.
  ///
  /// The kernel resolves the name before it opens the file. In between, the file may have been displaced and
  /// overwritten with a new, unpublished blob of the key, whose bytes are sound but were never stored. The key's
  /// generation has changed since the lookup in that case. Other changes of the key change it too, so the result is
  /// accepted after a few tries.
  private func readAtStableGeneration<Lookup: RecordLookup>(
    _ lookup: Lookup, _ mode: ReadMode, _ place: inout OpenRoot?
  ) throws -> Reading<Lookup.Content> {
    guard let open = try core.root.opened() else { return .absent }
    place = open
    // If packs exist, the read encounters the error again, and throws it.
    guard let control = try? open.controlFileOfLoads(core.configuration.logger) else {
      return try read(lookup, in: open, mode)
    }
    prefetch(lookup.path.digest, in: control)
    var triesLeft = 3
    while true {
      let generation = control.generation(of: lookup.path.digest)
      let reading = try read(lookup, in: open, mode)
      if case .absent = reading { return reading }
      if control.generation(of: lookup.path.digest) == generation || triesLeft == 0 { return reading }
      triesLeft -= 1
    }
  }

  /// Prefetches the cache lines of the shared tables that a load reads. The digest determines their places, and
  /// consecutive cache misses would cost as much as the read. It makes no system call.
  private func prefetch(_ digest: UInt64, in control: ControlFile) {
    guard control.isMapped, control.packIndexNumber != 0 else { return }
    core.packHolder.prefetch(digest, control)
    control.file.prefetch(at: ControlLayout.generationOffset(of: digest))
    let number = control.word(at: ControlLayout.usesNumberOffset)
    if number != 0 { _ = control.uses.withKnownSketch(number) { $0.prefetch(digest) } }
  }

  /// Returns the reading, or `absent` if another user's file is at the path.
  private func read<Lookup: RecordLookup>(
    _ lookup: Lookup, in open: OpenRoot, _ mode: ReadMode
  ) throws -> Reading<Lookup.Content> {
    do {
      return try read(open.placed(lookup.path), in: open, lookup, mode)
    } catch let error as FileError where open.foreignRecord(at: open.placed(lookup.path), after: error) != nil {
      return .absent
    }
  }
}
