internal import BlobRecord
internal import BlobStore
internal import Locks
internal import Logging
internal import Synchronization

/// The manifest of an object: the record that states which version's slices are stored.
///
/// Caches of other processes may have another version. Only the version that was opened last stores its slices; the
/// others fetch and store nothing. So two versions never repeatedly remove each other's slices.
final class SliceAgreement: Sendable {
  private struct State {
    /// A Boolean value that indicates whether the manifest was once this version's, so that any other is later.
    var hasAgreed = false
    var history: KeyHistory?
    /// The time until which the last lookup is valid, if there was one.
    var nextLookup: UnixTime?
    var life: Int64 = 0
  }

  private let layout: SliceLayout
  private let engine: CacheEngine
  private let state = Lock(State())
  private let outdated = Atomic(false)
  private let removals = Atomic(0)
  private let turnstile = Turnstile()

  init(_ layout: SliceLayout, _ engine: CacheEngine) {
    self.layout = layout
    self.engine = engine
  }

  /// A Boolean value that indicates whether a later version was opened, so that nothing may be stored.
  var isOutdated: Bool { outdated.load(ordering: .relaxed) }

  func setOutdated() { outdated.store(true, ordering: .relaxed) }

  var removalCount: Int { removals.load(ordering: .relaxed) }

  var waitingCount: Int { turnstile.waitingCount }
}

// MARK: - Answers

extension SliceAgreement {
  /// Ensures that slices of other versions are removed before slices are read.
  ///
  /// The occasional lookup counts as a use of the manifest, which must not be evicted or expire before slices that
  /// are read.
  func prepare(_ options: SliceOptions) async throws {
    let life = life(options)
    if isRecent(life) { return }
    try await turnstile.pass { if !isRecent(life) { _ = try await lookUp(options) } }
  }

  /// Returns whether slices may be stored: the manifest is this version's, and lives as long as they will.
  func isAgreed(_ options: SliceOptions) async throws -> Bool {
    if let answer = try knownAnswer(options) { return answer }
    return try await turnstile.pass {
      if let answer = try knownAnswer(options) { return answer }
      return try await lookUp(options)
    }
  }

  func knownAnswer(_ options: SliceOptions) throws -> Bool? {
    if isOutdated { return false }
    guard isRecent(life(options)), let history = state.withLock({ $0.history }),
      try engine.store.history(of: layout.manifestKey) == history
    else { return nil }
    return true
  }

  private func isRecent(_ life: Int64) -> Bool {
    let now = engine.store.configuration.now()
    return isOutdated || state.withLock { state in state.nextLookup.map { now < $0 && life <= state.life } ?? false }
  }

  /// Returns the life of a slice in seconds after its store or its last use.
  private func life(_ options: SliceOptions) -> Int64 {
    options.ttl?.wholeSeconds ?? engine.store.effectiveDefaultExpiration
  }
}

// MARK: - Lookups

extension SliceAgreement {
  private struct Lookup: Sendable {
    let history: KeyHistory?
    let manifest: Data?
    let expiry: UnixTime
  }

  /// Looks up the manifest, replaces it if necessary, and returns whether it is now this version's.
  private func lookUp(_ options: SliceOptions) async throws -> Bool {
    let life = life(options)
    var replaced: SliceLayout?
    while !isOutdated {
      let lookup = try await engine.lanes.reads.run { [self] queueTime in try find(queueTime) }
      let now = engine.store.configuration.now()
      if lookup.manifest == layout.manifest {
        if lookup.expiry >= now.advanced(bySeconds: life.saturatingAdding(life / 2)) {
          note(lookup, at: now, life)
          // This removes slices that another process has stored since their removal.
          if let replaced { try await engine.removeSlices(of: replaced) }
          return true
        }
      } else if let manifest = lookup.manifest, let other = SliceLayout(key: layout.key, manifest: manifest) {
        if state.withLock({ $0.hasAgreed }) {
          setOutdated()
          break
        }
        // The slices are removed before the manifest is replaced: after an interruption, it still describes them.
        try await engine.removeSlices(of: other)
        replaced = other
      }
      let hasFailed = try await engine.lanes.writes.run { [self] queueTime in
        try !put(insteadOf: lookup.manifest, options, queueTime: queueTime)
      }
      if hasFailed {
        note(nil, at: now, life)
        break
      }
      // The manifest is read again, because other processes may replace it too.
    }
    return false
  }

  /// Looks up the manifest. Blocks.
  private func find(_ queueTime: Duration) throws -> Lookup {
    let store = engine.store
    // The history is read before the lookup, so that later changes are detected.
    let history = try store.history(of: layout.manifestKey)
    let blob = try engine.readSlice(layout.manifestKey, nil, queueTime: queueTime)
    return Lookup(
      history: history, manifest: blob?.payload,
      expiry: blob?.header.expiry(defaultExpiration: store.effectiveDefaultExpiration) ?? .never)
  }

  /// Replaces the manifest that a lookup has found, unless another task has done so. Blocks.
  ///
  /// The manifest lives twice as long as slices, so that it is rarely written. Returns `false` for an ignored error.
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

  private func note(_ lookup: Lookup?, at now: UnixTime, _ life: Int64) {
    let interval = min(max(life / 8, 1), 60)
    let expiry = lookup?.expiry ?? .never
    state.withLock { state in
      state.hasAgreed = state.hasAgreed || lookup != nil
      state.history = lookup?.history
      state.life = life
      state.nextLookup = min(
        now.advanced(bySeconds: interval), expiry == .never ? .never : expiry.advanced(bySeconds: -life))
    }
  }
}

// MARK: - Removal

extension SliceAgreement {
  /// Removes the slices of this version, and its manifest. Fetches in progress are not stored.
  func removeAll() async throws {
    try await turnstile.pass {
      removals.add(1, ordering: .relaxed)
      state.withLock { state in
        state.history = nil
        state.nextLookup = nil
      }
      try await engine.removeSlices(of: layout)
      let isThere = try await engine.lanes.removals.run { [self] queueTime in
        guard try find(queueTime).manifest == layout.manifest else { return false }
        _ = try engine.remove(layout.manifestKey, if: nil, queueTime: queueTime, isOfRemote: false)
        return true
      }
      // This removes slices that another process has stored since their removal.
      if isThere { try await engine.removeSlices(of: layout) }
    }
  }
}

extension UnixTime {
  fileprivate static var never: UnixTime { UnixTime(seconds: .max) }
}
