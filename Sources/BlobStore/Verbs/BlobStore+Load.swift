public import BlobRecord
internal import Posix
internal import SystemPackage

#if canImport(FoundationEssentials)
  internal import FoundationEssentials
#else
  internal import Foundation
#endif

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
    guard
      let (header, payload) = try readUntilConsistent(
        path, configuration.damagePolicy,
        { open, isFirst throws in
          place = open
          return try records.read(open.placed(path), in: open, at: now, asksStatus: !isFirst)
        })
    else {
      count(.miss, of: path.digest, isUse: touching, at: now, in: place)
      return nil
    }
    count(.hit(byteCount: payload.count), of: path.digest, isUse: touching, at: now, in: place)
    if touching, header.ttl == 0, header.lastUpdate < now { receipt.update = touchAfterLoad(path, now) }
    return Blob(key: key, payload: payload, header: header)
  }

  fileprivate func liveHeader(for key: BlobKey) throws -> RecordHeader? {
    let path = try path(for: key)
    let now = configuration.now()
    return try readUntilConsistent(path, .report) { open, _ throws in
      try records.readHeader(of: open.placed(path), in: open, at: now)
    }?.0
  }

  /// Reads until the answer can be believed. A change in place may be seen half done, so a record that looks damaged is
  /// read again. If it still does, it is read once more under its stripe, if that is free at once.
  ///
  /// - Parameter read: told whether it is the first to read.
  func readUntilConsistent<Content>(
    _ path: RecordPath, _ policy: BlobStore.DamagePolicy,
    _ read: (OpenRoot, _ isFirst: Bool) throws -> Reading<Content>
  ) throws -> (RecordHeader, Content)? {
    switch try readAtStableGeneration(path, { open throws in try read(open, true) }) {
    case .absent: return nil
    case .live(let header, let content): return (header, content)
    case .damaged: break
    }
    func again(_ open: OpenRoot) throws -> Reading<Content> { try read(open, false) }
    var reading = try readAtStableGeneration(path, again)
    if case .damaged = reading, let hold = try stripes.holdIfAvailable(path.digest) {
      defer { extendLifetime(hold) }
      reading = try readAtStableGeneration(path, again)
    }
    switch reading {
    case .absent: return nil
    case .live(let header, let content): return (header, content)
    case .damaged(let error):
      try follow(policy, for: error, at: path)
      throw DamagedRecord(
        error: error, path: root.path.appending(path.placed(by: lastArrangement).relative))
    }
  }

  /// Reads the file that the name led to, if it still was the record when it was opened.
  ///
  /// The kernel looks at the name first, then opens the file. In between, the file may have been displaced and
  /// overwritten with a new blob of the key that is not published yet. The bytes are sound then, but were never stored.
  /// The key's generation has changed since before the look. Each change of the key changes it, so after a few tries
  /// the answer is believed.
  private func readAtStableGeneration<Content>(
    _ path: RecordPath, _ read: (OpenRoot) throws -> Reading<Content>
  ) throws -> Reading<Content> {
    guard let open = try root.opened() else { return .absent }
    func readOrPassOver() throws -> Reading<Content> {
      do {
        return try read(open)
      } catch let error as FileError where open.foreignRecord(at: open.placed(path), after: error) != nil {
        return .absent
      }
    }
    guard let control = open.controlFileOfLoads(configuration.logger) else {
      return try readOrPassOver()
    }
    var triesLeft = 3
    while true {
      let generation = control.generation(of: path.digest)
      let reading = try readOrPassOver()
      if case .absent = reading { return reading }
      if control.generation(of: path.digest) == generation || triesLeft == 0 { return reading }
      triesLeft -= 1
    }
  }

  /// Opens the file at a path, if it is the cache's.
  ///
  /// - Throws: `DamagedRecord` if others may write to it.
  func openRecord(_ path: RecordPath, for access: FileAccess) throws -> OpenedFile {
    guard let open = try root.opened() else { return .absent }
    return try records.open(open.placed(path), in: open, for: access)
  }

  /// The error for a sound record that is larger than this store takes.
  func tooLarge(_ header: RecordHeader, _ path: FilePath) -> BlobStoreError {
    BlobStoreError(
      .payloadTooLarge,
      "the payload of \(header.payloadSize) bytes is larger than the maximum of \(configuration.limits.payload)",
      path: path)
  }
}
