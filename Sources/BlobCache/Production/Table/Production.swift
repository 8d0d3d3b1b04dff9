internal import BlobRecord
internal import Locks
internal import Synchronization

/// A production of a key, from the lookup to the result. Productions of the same key have different identities.
final class Production: Sendable {
  enum Kind: CaseIterable, Sendable {
    /// A caller waits for the blob.
    case load
    /// A caller waits for the remote tier.
    case fetch
    /// A caller waits for the remote tier to open the blob's file.
    case fetchFile
    /// A request for the header of the remote tier's object.
    case fetchHeader
    /// A caller waits for the remote tier to confirm the blob in the directory.
    case confirm
    /// Another machine has changed the key, and the record here is removed.
    case drop
    /// A live but old blob is produced again.
    case refresh
  }

  struct Name: Hashable, Sendable {
    let key: BlobKey
    let kind: Kind
  }

  enum FirstLookup: Sendable {
    case hit(CacheEvent.Tier)
    case miss
  }

  let name: Name
  let flight: ProductionTable.Flights.ID
  private let superseded: Atomic<Bool>
  private let ended = Atomic(false)
  private let lookupResult = Lock<FirstLookup?>(nil)

  init(_ name: Name, in flight: ProductionTable.Flights.ID, isSuperseded: Bool) {
    self.name = name
    self.flight = flight
    superseded = Atomic(isSuperseded)
  }

  /// A Boolean value that indicates whether a change of the key prevents the store of the produced blob.
  var isSuperseded: Bool { superseded.load(ordering: .sequentiallyConsistent) }
  func supersede() { superseded.store(true, ordering: .sequentiallyConsistent) }

  /// A Boolean value that indicates whether the production has ended or was abandoned.
  var hasEnded: Bool { ended.load(ordering: .acquiring) }
  func end() { ended.store(true, ordering: .releasing) }

  /// The result of the first lookup, or `nil` until the disk was read.
  var firstLookup: FirstLookup? {
    get { lookupResult.withLock { $0 } }
    set { lookupResult.withLock { $0 = $0 ?? newValue } }
  }
}

extension Production: Hashable {
  static func == (first: Production, second: Production) -> Bool { first === second }
  func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}

/// The error of a store that is skipped because its key was changed since the production began.
struct Superseded: Error {}
