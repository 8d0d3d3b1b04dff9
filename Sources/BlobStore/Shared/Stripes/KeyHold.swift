internal import BlobRecord
internal import Posix

/// A held key, which keeps other threads and processes from changing its record until this value ends.
///
/// Only `StripeLocks` creates holds. Code that changes a record borrows one, to count it and advance the generation.
struct KeyHold: ~Copyable {
  private let digest: UInt64
  private let stripe: StripeTable.Stripe
  private let control: ControlFile?
  private let exclusion: Exclusion
  /// The key's generation, odd since this hold has begun to change what loads find.
  private var changed: ControlFile.OddGeneration?

  /// The protection from other processes.
  enum Exclusion: ~Copyable {
    /// No protection, because only one process uses the directory, or there is nothing to change.
    case none
    /// The stripe's word in shared memory, which contains this process's token.
    case stripeWord
    /// Without shared memory, the lock of the stripe's byte in the control file.
    case stripeByte
    /// Without a control file, the lock of the root, which is held until this open directory is closed.
    case root(Directory)
  }

  init(
    _ digest: UInt64, _ stripe: consuming StripeTable.Stripe, _ control: ControlFile?, _ exclusion: consuming Exclusion
  ) {
    self.digest = digest
    self.stripe = stripe
    self.control = control
    self.exclusion = exclusion
  }

  deinit {
    // Not earlier: if the process is killed, the generation stays odd, and no memory tier serves an odd generation.
    if let changed { control?.endChange(changed) }
    // Before the stripe, which is freed last, because threads of one process share the locks of its file.
    switch exclusion {
    case .stripeWord: control?.freeWord(of: ControlLayout.stripe(of: digest))
    case .stripeByte: control?.file.unlock(ControlLayout.stripeByte(of: digest))
    case .none: break
    // Two cases, because the compiler accepts no two patterns for a noncopyable value.
    case .root: break
    }
  }

  /// The key's generation after this hold, during which other changes cannot advance it.
  var generation: UInt64? {
    guard let control else { return nil }
    return changed.map(control.generation(after:)) ?? control.generation(of: digest)
  }

  /// The key's history, which only a wipe can change in the meantime.
  var history: KeyHistory {
    guard var history = control?.history(of: digest) else { return KeyHistory() }
    history.generation = generation
    return history
  }
}

// MARK: - Changes

extension KeyHold {
  /// Begins a change of what loads of the key find, so that memory tiers and late readers notice it.
  ///
  /// The generation is odd from the first such step until the hold ends, even if steps fail, or are completed for a
  /// dead process. No reader can mistake an intermediate state for a settled one. Beginning again is harmless.
  mutating func beginPayloadChange(_ level: BlobStore.Durability.Level) {
    willChange(level)
    if changed == nil { changed = control?.beginChange(of: digest) }
  }

  /// Begins such a change for another key of the stripe, which a dead process has left incomplete. Returns the change
  /// to end with `endChange(ofOther:)`, or `nil` if it ends with the hold. Throws ENOSPC if the volume is full and the
  /// other key's generation has no page.
  mutating func beginChange(ofOther other: UInt64) throws(FileError) -> ControlFile.OddGeneration? {
    precondition(covers(other))
    guard ControlLayout.generationOffset(of: other) != ControlLayout.generationOffset(of: digest) else {
      beginPayloadChange(.none)
      return nil
    }
    try memory?.allocateGeneration(of: other)
    return memory?.beginChange(of: other)
  }

  func endChange(ofOther change: ControlFile.OddGeneration?) {
    if let change { control?.endChange(change) }
  }

  /// Notifies watchers of the key that it has changed, although nothing is stored under it.
  mutating func noteChange() { beginPayloadChange(.none) }

  /// Must be called before each change, even of only a header.
  func willChange(_ level: BlobStore.Durability.Level) {
    if level > .none { control?.countDurableChange() }
  }

  /// Writes a header in place, so that no mark states a later expiration.
  func loweringMarks(
    of path: RecordPath, from before: RecordHeader, to header: RecordHeader, _ write: () throws -> Void
  ) throws {
    guard let control, header.mayExpireEarlier(than: before) else { return try write() }
    try control.loweringMarks(of: path.subdirectory, for: header, write)
  }

  /// Makes a file longer in place, so that no mark contains its old size.
  func endingMarks(of path: RecordPath, _ write: () throws -> Void) throws {
    guard let control else { return try write() }
    try control.endingMarks(of: path.subdirectory, write)
  }
}

// MARK: - Packed records

extension KeyHold {
  /// The control file if memory is shared, without which nothing is packed.
  private var memory: ControlFile? { control?.isMapped == true ? control : nil }

  private var stripeNumber: Int { ControlLayout.stripe(of: digest) }

  /// Returns the announced intent, which in a new hold is left by a dead process.
  func intent(_ word: ControlLayout.IntentWord) -> StripeIntent? { memory?.intent(word, of: stripeNumber) }

  var hasIntents: Bool { intent(.new) != nil || intent(.old) != nil }

  func announce(_ word: ControlLayout.IntentWord, _ intent: StripeIntent?) {
    memory?.willStep(.announce)
    memory?.setIntent(word, of: stripeNumber, to: intent)
  }

  func covers(_ other: UInt64) -> Bool { ControlLayout.stripe(of: other) == stripeNumber }
}

// MARK: - Counting

extension KeyHold {
  enum CountedAhead {
    /// The record may be stored. The associated value is the usage if it exceeds the limit or is unknown.
    case counted(exceeding: BlobStore.UsageEstimate?)
    /// The usage would be too far above the limit, and nothing is counted.
    case refused(BlobStore.UsageEstimate)
  }

  /// Counts a record before it is stored, so that the count is never less than the content, and concurrent stores
  /// cannot exceed the limit together. Until `endCount`, which must follow, the larger record counts.
  func countAhead(from before: RecordSize?, to after: RecordSize, within limit: StoreLimit?) -> CountedAhead {
    let both = after.covering(before)
    guard let control, let counted = control.count(from: before, to: both) else { return .counted(exceeding: nil) }
    let usage = counted - BlobStore.UsageEstimate(both) + BlobStore.UsageEstimate(after)
    let isKnown = control.countersAreKnown
    if let limit, limit.refuses(from: before, to: after, usage, isKnown: isKnown) {
      control.count(from: both, to: before)
      return .refused(usage)
    }
    return .counted(exceeding: limit.flatMap { !isKnown || $0.isExceeded(by: usage) ? usage : nil })
  }

  /// Corrects the count after a store succeeded (`isInPlace`), or failed and left the old record in place.
  ///
  /// If the change could not be finished after a failure, the next holder of the stripe decides which record becomes
  /// current, so the larger one stays counted.
  func endCount(from before: RecordSize?, to after: RecordSize, isInPlace: Bool) {
    guard isInPlace || !hasIntents else { return }
    let (both, last) = (after.covering(before), isInPlace ? after : before)
    if both != last { control?.count(from: both, to: last) }
  }

  /// Returns the usage after a change if it is too far above the limit, without counting it.
  func usageBeyondBounds(
    from before: RecordSize?, to after: RecordSize, _ limit: StoreLimit?
  ) -> BlobStore.UsageEstimate? {
    guard let control, let limit, let counted = control.counters else { return nil }
    let usage = counted + BlobStore.UsageEstimate(after) - BlobStore.UsageEstimate(before)
    return limit.refuses(from: before, to: after, usage, isKnown: control.countersAreKnown) ? usage : nil
  }

  func count(from before: RecordSize?, to after: RecordSize?) {
    control?.count(from: before, to: after)
  }
}
