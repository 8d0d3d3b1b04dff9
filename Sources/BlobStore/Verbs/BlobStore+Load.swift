public import BlobRecord
internal import Posix
internal import SystemPackage

extension BlobStore {
  /// The blob stored under a key, if it is live.
  ///
  /// A load of a record with ttl 0 moves its update time to now, never back, and at most once a second. It writes only
  /// the 64 bytes of the header, and only if it need not wait.
  ///
  /// System calls of a hit: open, fstat, read, close. Up to 8 KiB, ordinary users need no fstat; above a MiB, there is
  /// one call more. A move of the update time takes eight more. All cases: Spec/Performance.md.
  ///
  /// - Parameters:
  ///   - key: the key of the record.
  ///   - touching: whether to move the update time.
  /// - Returns: nil if there is no record, or it is expired and not locked.
  /// - Throws: `damaged`, after `damagePolicy` was followed; `payloadTooLarge`; `fileSystem`; `invalidKey`.
  public func load(_ key: BlobKey, touching: Bool = true) throws(BlobStoreError) -> Blob? {
    try withErrorContext("load", key) {
      var receipt = LoadReceipt()
      return try core.blob(for: key, at: try core.path(for: key), touching: touching, &receipt)
    }
  }

  /// A load for a memory tier in front, which has resolved the key to its path.
  package func load(
    _ key: BlobKey, at path: RecordPath, touching: Bool, _ receipt: inout LoadReceipt
  ) throws(BlobStoreError) -> Blob? {
    try withErrorContext("load", key) { try core.blob(for: key, at: path, touching: touching, &receipt) }
  }

  /// The blob that a load at an earlier time would find, in the record that is there now; it is not touched.
  ///
  /// - Throws: as `load`.
  package func load(_ key: BlobKey, liveAt time: UnixTime) throws(BlobStoreError) -> Blob? {
    try withErrorContext("load", key) {
      var receipt = LoadReceipt()
      return try core.blob(for: key, at: try core.path(for: key), touching: false, now: time, &receipt)
    }
  }

  /// The blob of one of the live keys that begin with a prefix.
  ///
  /// - Parameters:
  ///   - prefix: the beginning of the keys; empty for all.
  ///   - touching: whether to move the update time.
  ///   - choose: receives those keys, in no order. It is called only if there are any.
  /// - Returns: nil if there is no such key, if `choose` answers nil, or if the chosen one is gone by then.
  /// - Complexity: one header read for each record that begins with the first two characters of the prefix.
  public func load(
    prefix: String, touching: Bool = true, choosing choose: ([BlobKey]) -> BlobKey?
  ) throws(BlobStoreError) -> Blob? {
    try withErrorContext("load") {
      var keys: [BlobKey] = []
      for entry in try core.recordSequence(prefix: prefix) {
        // A file that is not for the caller is not among the candidates. Any other file that cannot be read may be one.
        if let error = entry.accessError, entry.path == nil || !error.isLackOfPermission { throw error }
        if let key = entry.key, entry.state == .live || entry.state == .locked { keys.append(key) }
      }
      guard !keys.isEmpty, let chosen = choose(keys) else { return nil }
      var receipt = LoadReceipt()
      return try core.blob(for: chosen, at: try core.path(for: chosen), touching: touching, &receipt)
    }
  }

  /// The header of a key's record, if it is live. The payload is not read and the record not touched.
  public func header(for key: BlobKey) throws(BlobStoreError) -> RecordHeader? {
    try withErrorContext("header", key) { try core.liveHeader(for: key) }
  }

  /// Whether a load would find a record; the payload is not read and the record not touched.
  public func contains(_ key: BlobKey) throws(BlobStoreError) -> Bool {
    try withErrorContext("contains", key) { try core.liveHeader(for: key) != nil }
  }
}

// MARK: - Reading

extension StoreCore {
  /// - Parameter time: when the load is made; nil for now.
  fileprivate func blob(
    for key: BlobKey, at path: RecordPath, touching: Bool, now time: UnixTime? = nil, _ receipt: inout LoadReceipt
  ) throws -> Blob? {
    let now = time ?? configuration.now()
    // The directory that was read, where the load is counted.
    var place: OpenRoot?
    let lookup = WholeLookup(key: key, path: path, now: now)
    guard let (header, content) = try readUntilConsistent(lookup, configuration.damagePolicy, &place) else {
      count(.miss, of: path.digest, isUse: touching, at: now, in: place)
      return nil
    }
    count(.hit(byteCount: content.payload.count), of: path.digest, isUse: touching, at: now, in: place)
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
    let lookup = HeaderLookup(path: try path(for: key), now: configuration.now())
    return try readUntilConsistent(lookup, .report, &place)?.0
  }

  /// Reads until the answer can be believed. A change in place may be seen half done, so a record that looks damaged is
  /// read again. If it still does, it is read once more under its stripe, if that is free at once.
  ///
  /// - Parameter place: receives the directory that was read.
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
        error: error, path: root.path.appending(lookup.path.placed(by: lastArrangement).relative))
    }
  }

  /// Reads the file that the name led to, if it still was the record when it was opened.
  ///
  /// The kernel looks at the name first, then opens the file. In between, the file may have been displaced and
  /// overwritten with a new blob of the key that is not published yet. The bytes are sound then, but were never stored.
  /// The key's generation has changed since before the look. Each change of the key changes it, so after a few tries
  /// the answer is believed.
  private func readAtStableGeneration<Lookup: RecordLookup>(
    _ lookup: Lookup, _ mode: ReadMode, _ place: inout OpenRoot?
  ) throws -> Reading<Lookup.Content> {
    guard let open = try root.opened() else { return .absent }
    place = open
    // What keeps it from being opened is met once more, where there are packs.
    guard let control = try? open.controlFileOfLoads(configuration.logger) else {
      return try read(lookup, in: open, mode)
    }
    prefetch(forLoadOf: lookup.path.digest, in: control)
    var triesLeft = 3
    while true {
      let generation = control.generation(of: lookup.path.digest)
      let reading = try read(lookup, in: open, mode)
      if case .absent = reading { return reading }
      if control.generation(of: lookup.path.digest) == generation || triesLeft == 0 { return reading }
      triesLeft -= 1
    }
  }

  /// The reading, or `absent` where another user's file is in the way.
  private func read<Lookup: RecordLookup>(
    _ lookup: Lookup, in open: OpenRoot, _ mode: ReadMode
  ) throws -> Reading<Lookup.Content> {
    do {
      return try records.read(open.placed(lookup.path), in: open, lookup, mode)
    } catch let error as FileError where open.foreignRecord(at: open.placed(lookup.path), after: error) != nil {
      return .absent
    }
  }
}
