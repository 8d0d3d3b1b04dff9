internal import BlobRecord
internal import BlobStore
internal import Locks
internal import Logging
internal import Synchronization

/// Keeps the manifest of an object: the record that says which version's slices are there.
///
/// Caches of other processes may have another version. The one that was opened last has its slices stored; the others fetch
/// and store nothing. So two versions never remove each other's slices again and again.
final class SliceAgreement: Sendable {
  private struct State {
    /// Whether the manifest was this version's once. Another one in its place is a later one, then.
    var hasAgreed = false
    /// Of the manifest's key, before it was last found to be this version's; nil where that is not known.
    var history: KeyHistory?
    /// Until when the last look will do; nil without one.
    var nextLook: UnixTime?
    /// Seconds for which slices live at the longest, by the last look.
    var life: Int64 = 0
  }

  private let layout: SliceLayout
  private let engine: CacheEngine
  private let state = Lock(State())
  private let outdated = Atomic(false)
  private let removals = Atomic(0)
  /// Looks, one at a time.
  private let turnstile = Turnstile()

  init(_ layout: SliceLayout, _ engine: CacheEngine) {
    self.layout = layout
    self.engine = engine
  }

  /// Whether a later version was opened: then nothing is stored any more.
  var isOutdated: Bool { outdated.load(ordering: .relaxed) }

  func setOutdated() { outdated.store(true, ordering: .relaxed) }

  /// Removals of all slices that have begun.
  var removalCount: Int { removals.load(ordering: .relaxed) }

  /// Reads that wait for another one's look; for tests.
  var waitingCount: Int { turnstile.waitingCount }
}

// MARK: - Answers

extension SliceAgreement {
  /// Makes sure, before slices are read, that those of another version are gone.
  ///
  /// It looks once a while, which is a use of the manifest: that is not evicted, and does not expire, before slices that are
  /// read.
  func prepare(_ options: SliceOptions) async throws {
    let life = life(options)
    if isRecent(life) { return }
    try await turnstile.pass { if !isRecent(life) { _ = try await look(options) } }
  }

  /// Whether slices may be stored: the manifest is this version's, and lives as long as they will.
  func isAgreed(_ options: SliceOptions) async throws -> Bool {
    if let answer = try knownAnswer(options) { return answer }
    return try await turnstile.pass {
      if let answer = try knownAnswer(options) { return answer }
      return try await look(options)
    }
  }

  /// What is known without the disk.
  func knownAnswer(_ options: SliceOptions) throws -> Bool? {
    if isOutdated { return false }
    guard isRecent(life(options)), let history = state.withLock({ $0.history }),
      try engine.store.history(of: layout.manifestKey) == history
    else { return nil }
    return true
  }

  private func isRecent(_ life: Int64) -> Bool {
    let now = engine.store.configuration.now()
    return isOutdated || state.withLock { state in state.nextLook.map { now < $0 && life <= state.life } ?? false }
  }

  /// Seconds that a slice lives after its store or its last use.
  private func life(_ options: SliceOptions) -> Int64 {
    options.ttl?.wholeSeconds ?? engine.store.effectiveDefaultExpiration
  }
}

// MARK: - Looks

extension SliceAgreement {
  private struct Look: Sendable {
    /// Of the manifest's key, before the look.
    let history: KeyHistory?
    let manifest: Data?
    let expiry: UnixTime
  }

  /// Looks at the manifest, and leaves this version's where it is missing or another's, whose slices go.
  ///
  /// - Returns: whether it is there.
  private func look(_ options: SliceOptions) async throws -> Bool {
    let life = life(options)
    var replaced: SliceLayout?
    while !isOutdated {
      let look = try await engine.lanes.reads.run { [self] queueTime in try find(queueTime) }
      let now = engine.store.configuration.now()
      if look.manifest == layout.manifest {
        if look.expiry >= now.advanced(bySeconds: life.saturatingAdding(life / 2)) {
          note(look, at: now, life)
          // Those that another process has stored since they were removed.
          if let replaced { try await engine.removeSlices(of: replaced) }
          return true
        }
      } else if let manifest = look.manifest, let other = SliceLayout(key: layout.key, manifest: manifest) {
        if state.withLock({ $0.hasAgreed }) {
          setOutdated()
          break
        }
        // Before the manifest says otherwise: if this is cut off, the manifest still tells of them.
        try await engine.removeSlices(of: other)
        replaced = other
      }
      let hasFailed = try await engine.lanes.writes.run { [self] queueTime in
        try !put(insteadOf: look.manifest, options, queueTime: queueTime)
      }
      if hasFailed {
        note(nil, at: now, life)
        break
      }
      // What is there now is looked at, as others may be at it too.
    }
    return false
  }

  /// Blocks.
  private func find(_ queueTime: Duration) throws -> Look {
    let store = engine.store
    // Before the look: what changes afterwards shows.
    let history = try store.history(of: layout.manifestKey)
    let blob = try engine.readSlice(layout.manifestKey, nil, queueTime: queueTime)
    return Look(
      history: history, manifest: blob?.payload,
      expiry: blob?.header.expiry(defaultExpiration: store.effectiveDefaultExpiration) ?? .never)
  }

  /// Replaces the manifest that a look has found, unless another has done so. Blocks.
  ///
  /// It lives twice as long as slices do, so that it is seldom written again.
  ///
  /// - Returns: false for a failure, where the options say that one may be passed over.
  private func put(insteadOf found: Data?, _ options: SliceOptions, queueTime: Duration) throws -> Bool {
    let (key, life) = (layout.manifestKey, life(options))
    do {
      let history = try engine.store.firstHistory(of: key)
      guard try engine.readSlice(key, nil, queueTime: queueTime)?.payload == found else { return true }
      let condition = StoreCondition(history: history, isWanted: { [self] in !isOutdated })
      _ = try engine.storeSlice(
        layout.manifest, for: key, ttl: .seconds(life.saturatingAdding(life)), if: condition, queueTime: queueTime)
      return true
    } catch let error as BlobStoreError where options.answersUnstored {
      engine.tellUnstored(error, key, byteCount: layout.manifest.count)
      return false
    }
  }

  /// - Parameter look: nil if the manifest could not be left.
  private func note(_ look: Look?, at now: UnixTime, _ life: Int64) {
    let interval = min(max(life / 8, 1), 60)
    let expiry = look?.expiry ?? .never
    state.withLock { state in
      state.hasAgreed = state.hasAgreed || look != nil
      state.history = look?.history
      state.life = life
      state.nextLook = min(
        now.advanced(bySeconds: interval), expiry == .never ? .never : expiry.advanced(bySeconds: -life))
    }
  }
}

// MARK: - Removal

extension SliceAgreement {
  /// Removes the slices of this version, and the manifest if it is this version's. Fetches that are under way are not
  /// stored.
  func removeAll() async throws {
    try await turnstile.pass {
      removals.add(1, ordering: .relaxed)
      state.withLock { state in
        state.history = nil
        state.nextLook = nil
      }
      try await engine.removeSlices(of: layout)
      let isThere = try await engine.lanes.removals.run { [self] queueTime in
        guard try find(queueTime).manifest == layout.manifest else { return false }
        _ = try engine.remove(layout.manifestKey, if: nil, queueTime: queueTime, isOfRemote: false)
        return true
      }
      // Those that another process has stored since they were removed.
      if isThere { try await engine.removeSlices(of: layout) }
    }
  }
}

extension UnixTime {
  fileprivate static var never: UnixTime { UnixTime(seconds: .max) }
}
