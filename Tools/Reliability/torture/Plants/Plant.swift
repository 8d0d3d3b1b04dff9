internal import ArgumentParser

/// Planted faults of workers, to verify that a run detects them.
enum Plant: String, CaseIterable, ExpressibleByArgument {
  /// Locks and unlocks read and write the header without any lock.
  case unlockedHeader = "unlocked-header"
  /// Stores overwrite the record in place.
  case inPlace = "in-place"
  /// Loads return values from memory without checking the generation.
  case blindMemory = "blind-memory"
  /// Locks use the header that they read before they held the stripe.
  case staleHeader = "stale-header"
  /// Locks do not check whether the control file that they lock is still the directory's.
  case staleControlFile = "stale-control-file"
  /// Collections remove expired records without a lock and without a second check.
  case blindCollector = "blind-collector"
  /// Followers accept the bytes so far as the complete blob after its writer has discarded it.
  case earlyEnd = "early-end"
  /// The threads of a worker change shared memory without a lock. Only the thread sanitizer detects this.
  case race
  /// Workers read one byte after the end of an allocation. Only the address sanitizer detects this.
  case overflow
}
