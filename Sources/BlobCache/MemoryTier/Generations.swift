internal import BlobStore
internal import Logging
internal import Locks

/// A generation in which nothing was being changed. What was read in it is true as long as it is in force.
struct GenerationStamp: Equatable, Sendable {
  fileprivate let value: UInt64
}

/// Tells whether a key's payload may have changed: by the generations that all processes share or, where there are none
/// and the directory is this process's alone, by counting its own changes.
final class Generations: Sendable {
  private let store: BlobStore
  private let own: OwnGenerations?

  init(of store: BlobStore) {
    self.store = store
    own = store.configuration.sharing == .exclusive ? OwnGenerations() : nil
  }

  /// The generation of a digest; nil where there is none, or something is being changed: then only the disk knows.
  ///
  /// - Complexity: no system call, but for a few, once a second, that see whether the control file is still there.
  func stamp(of digest: UInt64) -> GenerationStamp? {
    do {
      if let shared = try store.generation(ofDigest: digest) {
        return shared.isMultiple(of: 2) ? GenerationStamp(shared: shared) : nil
      }
    } catch {
      // Such as a directory that may only be read: what reads the disk will report what matters.
      store.configuration.logger.debug("no generation: \(error)")
      return nil
    }
    return own?.stamp(of: digest)
  }

  /// Runs a change of a key's payload.
  func changing<Result>(_ digest: UInt64, _ change: () throws -> Result) rethrows -> Result {
    guard let own else { return try change() }
    return try own.changing(digest, change)
  }

  /// The store has changed a key's payload by itself.
  func didChange(_ digest: UInt64) { own?.changing(digest) {} }

  /// Runs a change of many keys' payloads.
  func changingAll<Result>(_ change: () throws -> Result) rethrows -> Result {
    guard let own else { return try change() }
    return try own.changingAll(change)
  }
}

extension GenerationStamp {
  /// The generation that a store has left behind; nil where there are none.
  init?(_ receipt: StoreReceipt) {
    guard let generation = receipt.generation, generation.isMultiple(of: 2) else { return nil }
    self.init(shared: generation)
  }

  /// The upper half keeps it apart from one's own, which are small.
  fileprivate init(shared: UInt32) {
    value = UInt64(shared) | 1 << 63
  }
}

/// Counts the changes that are made through this process, where nobody else makes any.
private final class OwnGenerations: Sendable {
  private struct Slot {
    var changes: UInt64 = 0
    var underWay = 0

    mutating func begin() { underWay += 1 }

    mutating func end() {
      underWay -= 1
      changes &+= 1
    }
  }

  private struct State {
    var all = Slot()
    var slots = [Slot](repeating: Slot(), count: 1024)
  }

  private let state = Lock(State())

  func stamp(of digest: UInt64) -> GenerationStamp? {
    state.withLock { state in
      let slot = state.slots[Self.index(digest)]
      guard slot.underWay == 0, state.all.underWay == 0 else { return nil }
      // Both only grow, so their sum is the same only while each is.
      return GenerationStamp(value: slot.changes &+ state.all.changes)
    }
  }

  func changing<Result>(_ digest: UInt64, _ change: () throws -> Result) rethrows -> Result {
    let index = Self.index(digest)
    state.withLock { $0.slots[index].begin() }
    defer { state.withLock { $0.slots[index].end() } }
    return try change()
  }

  func changingAll<Result>(_ change: () throws -> Result) rethrows -> Result {
    state.withLock { $0.all.begin() }
    defer { state.withLock { $0.all.end() } }
    return try change()
  }

  private static func index(_ digest: UInt64) -> Int { Int(digest % 1024) }
}
