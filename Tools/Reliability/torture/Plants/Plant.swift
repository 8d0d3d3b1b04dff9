internal import ArgumentParser

/// Faults that workers have on purpose, so that a run shows that it would find them.
enum Plant: String, CaseIterable, ExpressibleByArgument {
  /// Locks and unlocks read and write the header without any lock.
  case unlockedHeader = "unlocked-header"
  /// Stores write over the record where it lies.
  case inPlace = "in-place"
  /// Loads answer from memory without looking at the generation.
  case blindMemory = "blind-memory"
  /// Locks judge and count by the header as it was before they had the stripe.
  case staleHeader = "stale-header"
  /// Locks do not look whether the control file they lock is still the directory's.
  case staleControlFile = "stale-control-file"
  /// Collections remove what they found expired without a lock, and without looking again.
  case blindCollector = "blind-collector"
  /// Followers take what is there for the whole blob when its writer has given it up.
  case earlyEnd = "early-end"
  /// The threads of a worker change the same memory without any lock. Only the thread sanitizer sees it.
  case race
  /// Workers read one byte beyond an allocation. Only the address sanitizer sees it.
  case overflow
}
