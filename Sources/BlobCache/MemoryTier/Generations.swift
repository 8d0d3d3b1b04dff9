internal import BlobStore
internal import Logging
internal import Locks

/// A generation in which nothing was being changed. A blob that was read in it is current as long as it is in force.
struct GenerationStamp: Equatable, Sendable {
  fileprivate let value: UInt64
}

/// Tells whether a key's payload may have changed.
///
/// It goes by the generations that all processes share. Where there are none, and the directory is this process's
/// alone, it counts its own changes.
final class Generations: Sendable {
  private let store: BlobStore
  private let own: OwnGenerations?

  init(of store: BlobStore) {
    self.store = store
    own = store.configuration.access.sharing == .exclusive ? OwnGenerations() : nil
  }

  /// The generation of a digest; nil where only the disk knows.
  ///
  /// That is so without generations, and during a change.
  ///
  /// - Complexity: no system call, except for a few, once a second, that see whether the control file is still there.
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
    // Another directory at the path holds other blobs.
    return own?.stamp(of: digest, rootChanges: store.rootChanges)
  }

  /// Whether a stamp still holds, so that memory may answer.
  ///
  /// - Parameter hit: is counted if the stamp holds and processes share numbers; nil to count nothing.
  func isInForce(_ stamp: GenerationStamp, of digest: UInt64, counting hit: MemoryHit?) -> Bool {
    do {
      if let holds = try store.answers(hit, ofDigest: digest, if: { GenerationStamp(shared: $0) == stamp }) {
        return holds
      }
    } catch {
      // As for `stamp`.
      store.configuration.logger.debug("no generation: \(error)")
      return false
    }
    return own?.stamp(of: digest, rootChanges: store.rootChanges) == stamp
  }

  /// Where the generations are that processes share.
  ///
  /// - Parameter last: is returned if it is still the place.
  func place(after last: GenerationPlace?) -> GenerationPlace { store.generationPlace(after: last) }

  /// Begins a change of a key's payload. `endChange` must follow.
  func beginChange(of digest: UInt64) { own?.beginChange(of: digest) }

  func endChange(of digest: UInt64) { own?.endChange(of: digest) }

  /// Runs a change of a key's payload.
  func changing<Result>(_ digest: UInt64, _ change: () throws -> Result) rethrows -> Result {
    beginChange(of: digest)
    defer { endChange(of: digest) }
    return try change()
  }

  /// The store has changed a key's payload by itself.
  func didChange(_ digest: UInt64) { changing(digest) {} }

  /// Runs a change of all keys' payloads.
  func changingAll<Result>(_ change: () throws -> Result) rethrows -> Result {
    guard let own else { return try change() }
    return try own.changingAll(change)
  }
}

extension GenerationStamp {
  /// The generation that a store has left behind; nil where there are none.
  init?(_ receipt: StoreReceipt) { self.init(receipt.generation) }

  /// The generation in which a look that never waits has read a record; nil where there are none.
  init?(_ receipt: LoadReceipt) { self.init(receipt.generation) }

  private init?(_ generation: UInt64?) {
    guard let generation, generation.isMultiple(of: 2) else { return nil }
    self.init(shared: generation)
  }

  /// The highest bit keeps it apart from one's own, which are small.
  private static let sharedBit: UInt64 = 1 << 63

  fileprivate init(shared: UInt64) {
    value = shared | Self.sharedBit
  }

  /// The generation that processes share. For one's own, a number that no generation is.
  var shared: UInt64 { value ^ Self.sharedBit }
}

/// Counts the changes through this process, where no other process makes any.
private final class OwnGenerations: Sendable {
  fileprivate struct State {
    var changesOfAll: UInt64 = 0
    var changesOfAllUnderWay = 0
    /// By slot; 0 is left out.
    var underWay: [Int: Int] = [:]
    /// Each made when one of its slots is first changed.
    var pages = [[UInt32]](repeating: [], count: OwnGenerations.slotCount / OwnGenerations.pageCount)
  }

  /// As many as processes share: few keys have one in common.
  private static let slotCount = 1 << 20
  fileprivate static let pageCount = 1 << 10
  private let state = Lock(State())

  /// - Parameter rootChanges: grows whenever another directory may have come to the path.
  func stamp(of digest: UInt64, rootChanges: UInt64) -> GenerationStamp? {
    let slot = Self.slot(digest)
    return state.withLock { state in
      guard state.changesOfAllUnderWay == 0, state.underWay[slot] == nil else { return nil }
      let page = state.pages[slot / Self.pageCount]
      let changes = page.isEmpty ? 0 : page[slot % Self.pageCount]
      // All of them only grow, so their sum is the same only while each is.
      return GenerationStamp(value: UInt64(changes) &+ state.changesOfAll &+ rootChanges)
    }
  }

  func beginChange(of digest: UInt64) { state.withLock { $0.underWay[Self.slot(digest), default: 0] += 1 } }

  func endChange(of digest: UInt64) { state.withLock { $0.end(Self.slot(digest)) } }

  func changingAll<Result>(_ change: () throws -> Result) rethrows -> Result {
    state.withLock { $0.changesOfAllUnderWay += 1 }
    defer {
      state.withLock { state in
        state.changesOfAllUnderWay -= 1
        state.changesOfAll &+= 1
      }
    }
    return try change()
  }

  private static func slot(_ digest: UInt64) -> Int { Int(digest % UInt64(slotCount)) }
}

extension OwnGenerations.State {
  fileprivate mutating func end(_ slot: Int) {
    if let count = underWay[slot] { underWay[slot] = count == 1 ? nil : count - 1 }
    let page = slot / OwnGenerations.pageCount
    if pages[page].isEmpty { pages[page] = [UInt32](repeating: 0, count: OwnGenerations.pageCount) }
    pages[page][slot % OwnGenerations.pageCount] &+= 1
  }
}
