package import BlobRecord
internal import BlobStore
internal import Locks
internal import Logging

/// A generation without a change in progress; blobs read in it are valid while the generation is current.
struct GenerationStamp: Equatable, Sendable {
  fileprivate let value: UInt64

  /// The stamp of a blob that is not kept in memory: a generation with a change in progress, which is never compared.
  static let none = GenerationStamp(shared: 1)
}

/// Detects whether a key's payload may have changed, by the generations that all processes share.
///
/// Without shared generations, if this process has exclusive access to the directory, it counts its own changes.
final class Generations: Sendable {
  private let store: BlobStore
  private let own: OwnGenerations?

  init(of store: BlobStore) {
    self.store = store
    own = store.configuration.access.sharing == .exclusive ? OwnGenerations() : nil
  }

  /// Returns the generation of a digest, or `nil` during a change and without generations.
  ///
  /// - Complexity: No system call, except for a few once a second that check the control file.
  func stamp(of digest: UInt64) -> GenerationStamp? {
    do {
      if let shared = try store.generation(ofDigest: digest) {
        return shared.isMultiple(of: 2) ? GenerationStamp(shared: shared) : nil
      }
    } catch {
      // The directory may be read-only, for example. A read of the disk reports errors that matter.
      store.configuration.logger.debug("no generation: \(error)")
      return nil
    }
    // The changes of the root are included, because another directory at the path contains other blobs.
    return own?.stamp(of: digest, rootChanges: store.rootChanges)
  }

  /// Returns a Boolean value that indicates whether a stamp is current, so that the blob in memory is valid.
  ///
  /// - Parameter hit: The hit to count if the stamp is current and generations are shared, or `nil`.
  func isInForce(_ stamp: GenerationStamp, of digest: UInt64, counting hit: MemoryHit?) -> Bool {
    do {
      if let holds = try store.answers(hit, ofDigest: digest, if: { GenerationStamp(shared: $0) == stamp }) {
        return holds
      }
    } catch {
      // For the reason, see `stamp`.
      store.configuration.logger.debug("no generation: \(error)")
      return false
    }
    return own?.stamp(of: digest, rootChanges: store.rootChanges) == stamp
  }

  /// Returns the location of the shared generations, which is `last` if it has not changed.
  func place(after last: GenerationPlace?) -> GenerationPlace { store.generationPlace(after: last) }

  /// Begins a change of a key's payload. `endChange` must follow.
  func beginChange(of digest: UInt64) { own?.beginChange(of: digest) }

  func endChange(of digest: UInt64) { own?.endChange(of: digest) }

  func changing<Result>(_ digest: UInt64, _ change: () throws -> Result) rethrows -> Result {
    beginChange(of: digest)
    defer { endChange(of: digest) }
    return try change()
  }

  /// Records a change of a key's payload that the store made by itself.
  func didChange(_ digest: UInt64) { changing(digest) {} }

  func changingAll<Result>(_ change: () throws -> Result) rethrows -> Result {
    guard let own else { return try change() }
    return try own.changingAll(change)
  }
}

extension GenerationStamp {
  /// The generation that a store has created, or `nil` without generations.
  init?(_ receipt: StoreReceipt) { self.init(receipt.generation) }

  /// The generation in which a non-blocking lookup has read a record, or `nil` without generations.
  init?(_ receipt: LoadReceipt) { self.init(receipt.generation) }

  private init?(_ generation: UInt64?) {
    guard let generation, generation.isMultiple(of: 2) else { return nil }
    self.init(shared: generation)
  }

  /// The highest bit distinguishes shared generations from own ones, which are small.
  private static let sharedBit: UInt64 = 1 << 63

  fileprivate init(shared: UInt64) {
    value = shared | Self.sharedBit
  }

  /// The shared generation, or, for an own generation, a number that no shared generation has.
  var shared: UInt64 { value ^ Self.sharedBit }
}

/// Counts the changes of this process, which has exclusive access to the directory.
private final class OwnGenerations: Sendable {
  fileprivate struct State {
    var changesOfAll: UInt64 = 0
    var changesOfAllUnderWay = 0
    /// The number of changes in progress by slot, without zeros.
    var underWay: [Int: Int] = [:]
    var pages = [[UInt32]](repeating: [], count: OwnGenerations.slotCount / OwnGenerations.pageCount)
  }

  /// The same number as for shared generations, so that few keys share a slot.
  private static let slotCount = 1 << 20
  fileprivate static let pageCount = 1 << 10
  private let state = Lock(State())

  /// - Parameter rootChanges: A number that increases whenever the path may refer to another directory.
  func stamp(of digest: UInt64, rootChanges: UInt64) -> GenerationStamp? {
    let slot = Self.slot(digest)
    return state.withLock { state in
      guard state.changesOfAllUnderWay == 0, state.underWay[slot] == nil else { return nil }
      let page = state.pages[slot / Self.pageCount]
      let changes = page.isEmpty ? 0 : page[slot % Self.pageCount]
      // The numbers only increase, so an equal sum means equal numbers.
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

/// Detects whether a key's payload may have changed, in this process or another one.
///
/// A payload that was read between two equal stamps is the key's payload as long as the stamp is the same.
package struct PayloadWatch: Sendable {
  /// A state of a key's payload.
  package struct Stamp: Equatable, Sendable {
    fileprivate let generation: GenerationStamp
  }

  private let engine: CacheEngine
  private let key: BlobKey
  private let digest: UInt64

  fileprivate init(_ key: BlobKey, _ engine: CacheEngine) throws {
    self.engine = engine
    self.key = key
    digest = try engine.store.path(of: key, for: "load").digest
  }

  /// Returns the current stamp, or `nil` if a change is in progress or changes cannot be detected.
  ///
  /// - Complexity: No system call, except for a few once a second.
  package func stamp() -> Stamp? {
    // A staged blob changes no generation until it is written.
    guard engine.staging?.blob(for: key) == nil else { return nil }
    return engine.generations.stamp(of: digest).map(Stamp.init)
  }
}

extension BlobCache {
  /// Returns a watch of a key's payload.
  ///
  /// - Throws: `invalidKey` for a key that cannot be stored; `closed`.
  package func payloadWatch(of key: BlobKey) throws -> PayloadWatch { try PayloadWatch(key, try openEngine()) }
}
