internal import BlobRecord
internal import Posix

/// A key that is held: no other thread and no other process changes its record until this value ends, which frees it.
///
/// `StripeLocks` alone makes one. Code that changes a record borrows it, counts the change in it, and moves the key's
/// generation on by it.
struct KeyHold: ~Copyable {
  private let digest: UInt64
  private let stripe: StripeTable.Stripe
  /// nil where the directory has no control file.
  private let control: ControlFile?
  /// What keeps other processes off.
  private let exclusion: Exclusion
  /// The key's generation, odd since this hold changes what loads find; `nil` before the first such step.
  private var changed: ControlFile.OddGeneration?

  /// What keeps other processes off a key.
  enum Exclusion: ~Copyable {
    /// Nothing does: there are none, or nothing to change.
    case none
    /// The stripe's word in shared memory, which has this process's token.
    case stripeWord
    /// The stripe's byte of the control file, which is locked, where memory is not shared.
    case stripeByte
    /// The root, locked for want of a control file until it is closed.
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
    // Only now: a process that is killed earlier leaves the generation odd, and no memory tier answers by an odd one.
    if let changed { control?.endChange(changed) }
    // Before the stripe, which ends after this: threads of one process share the locks of its file.
    switch exclusion {
    case .stripeWord: control?.freeWord(of: ControlLayout.stripe(of: digest))
    case .stripeByte: control?.file.unlock(ControlLayout.stripeByte(of: digest))
    case .none: break
    // Two cases, because the compiler takes no two patterns for a value that cannot be copied.
    case .root: break
    }
  }

  /// The key's generation once this hold has ended, which no other change can move meanwhile; `nil` where there are none.
  var generation: UInt64? {
    guard let control else { return nil }
    return changed.map(control.generation(after:)) ?? control.generation(of: digest)
  }

  /// The key's history, to which nothing but a wipe can add meanwhile.
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
  /// The generation is odd from the first such step until the hold ends, whatever happens in between: steps may follow each other,
  /// fail, or be finished for a dead process, and no reader can take an intermediate state for a settled one. To begin again is
  /// harmless.
  mutating func beginPayloadChange(_ level: BlobStore.Durability.Level) {
    willChange(level)
    if changed == nil { changed = control?.beginChange(of: digest) }
  }

  /// Begins such a change of another key of the stripe, which a dead process has left unfinished.
  ///
  /// - Returns: The change, which must be ended with `endChange(ofOther:)`; `nil` if it ends with the hold.
  mutating func beginChange(ofOther other: UInt64) -> ControlFile.OddGeneration? {
    precondition(covers(other))
    guard ControlLayout.generationOffset(of: other) != ControlLayout.generationOffset(of: digest) else {
      beginPayloadChange(.none)
      return nil
    }
    return control?.beginChange(of: other)
  }

  func endChange(ofOther change: ControlFile.OddGeneration?) {
    if let change { control?.endChange(change) }
  }

  /// Notifies watchers of the key that it has changed, although nothing is stored under it.
  mutating func noteChange() { beginPayloadChange(.none) }

  /// A change is about to be made, also one of a header alone.
  func willChange(_ level: BlobStore.Durability.Level) {
    if level > .none { control?.countDurableChange() }
  }

  /// Writes a header in place, so that no mark says that the record expires later than it does now.
  func loweringMarks(
    of path: RecordPath, from before: RecordHeader, to header: RecordHeader, _ write: () throws -> Void
  ) rethrows {
    guard let control, header.mayExpireEarlier(than: before) else { return try write() }
    try control.loweringMarks(of: path.subdirectory, for: header, write)
  }

  /// Makes a file longer in place, so that no mark tells its old size.
  func endingMarks(of path: RecordPath, _ write: () throws -> Void) rethrows {
    guard let control else { return try write() }
    try control.endingMarks(of: path.subdirectory, write)
  }
}

// MARK: - Packed records

extension KeyHold {
  /// nil where memory is not shared: nothing is packed there.
  private var memory: ControlFile? { control?.isMapped == true ? control : nil }

  private var stripeNumber: Int { ControlLayout.stripe(of: digest) }

  /// What the stripe's holder has announced; of a new hold, what a dead one has left unfinished.
  func intent(_ word: ControlLayout.IntentWord) -> StripeIntent? { memory?.intent(word, of: stripeNumber) }

  /// Whether anything is announced that has not ended.
  var hasIntents: Bool { intent(.new) != nil || intent(.old) != nil }

  /// Announces a step, or takes back what was announced.
  func announce(_ word: ControlLayout.IntentWord, _ intent: StripeIntent?) {
    memory?.willStep(.announce)
    memory?.setIntent(word, of: stripeNumber, to: intent)
  }

  /// Whether no record of the stripe is a file, as far as this library has made them.
  var hasNoFiles: Bool { memory?.hasNoFiles(ofStripe: stripeNumber) == true }

  /// A file is about to get its name.
  func willMakeFile() { memory?.noteFiles(ofStripe: stripeNumber, hasNone: false) }

  /// Whether a digest's key has this stripe.
  func covers(_ other: UInt64) -> Bool { ControlLayout.stripe(of: other) == stripeNumber }
}

// MARK: - Counting

extension KeyHold {
  /// The outcome of counting a record ahead of its place.
  enum CountedAhead {
    /// The record may take its place. If there is more than may stay then, or it is not known how much, that is in it.
    case counted(exceeding: BlobStore.UsageEstimate?)
    /// There would be more than there may ever be, and nothing is counted.
    case refused(BlobStore.UsageEstimate)
  }

  /// Counts a record before it has its place. `endCount` must follow.
  ///
  /// So the count is never less than the content, and of many stores at once, not one too many finds room. Until the record has
  /// its place, the larger one of both counts.
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

  /// Takes back what was counted ahead for nothing.
  ///
  /// - Parameter isInPlace: whether the record has its place. If not, the one before has stayed.
  func endCount(from before: RecordSize?, to after: RecordSize, isInPlace: Bool) {
    let (both, last) = (after.covering(before), isInPlace ? after : before)
    if both != last { control?.count(from: both, to: last) }
  }

  /// The usage after such a change, if that is more than there may ever be. Nothing is counted for it.
  func usageBeyondBounds(
    from before: RecordSize?, to after: RecordSize, _ limit: StoreLimit?
  ) -> BlobStore.UsageEstimate? {
    guard let control, let limit, let counted = control.counters else { return nil }
    let usage = counted + BlobStore.UsageEstimate(after) - BlobStore.UsageEstimate(before)
    return limit.refuses(from: before, to: after, usage, isKnown: control.countersAreKnown) ? usage : nil
  }

  /// Counts what a change has done to the record's file.
  func count(from before: RecordSize?, to after: RecordSize?) {
    control?.count(from: before, to: after)
  }
}
