internal import BlobRecord
internal import Locks
internal import Synchronization

/// One production of a key, from the look for its blob to its answer. It is told from another of the same key.
final class Production: Sendable {
  enum Kind: CaseIterable, Sendable {
    /// A caller waits for it.
    case load
    /// A caller waits for the remote tier.
    case fetch
    /// A caller waits for the remote tier, to open the blob's file.
    case fetchFile
    /// A caller waits for the remote tier's word about a blob that lies here.
    case confirm
    /// Another machine has changed the key, and what lies here is dropped.
    case drop
    /// A live blob that is old is produced anew.
    case refresh
  }

  /// The key of a production in the table.
  struct Name: Hashable, Sendable {
    let key: BlobKey
    let kind: Kind
  }

  /// How the first look for the blob ended.
  enum Look: Sendable {
    case hit(CacheEvent.Tier)
    case miss
  }

  let name: Name
  /// Its flight in the table.
  let flight: ProductionTable.Flights.ID
  private let superseded: Atomic<Bool>
  private let ended = Atomic(false)
  private let firstLook = Lock<Look?>(nil)

  init(_ name: Name, in flight: ProductionTable.Flights.ID, isSuperseded: Bool) {
    self.name = name
    self.flight = flight
    superseded = Atomic(isSuperseded)
  }

  /// Whether a store or a removal of the key has come since it began.
  ///
  /// Then its blob is answered, and not stored.
  var isSuperseded: Bool { superseded.load(ordering: .sequentiallyConsistent) }
  func supersede() { superseded.store(true, ordering: .sequentiallyConsistent) }

  /// Whether nothing waits for it any more: it has ended, or was abandoned.
  var hasEnded: Bool { ended.load(ordering: .acquiring) }
  func end() { ended.store(true, ordering: .releasing) }

  /// nil until the disk has answered.
  var look: Look? {
    get { firstLook.withLock { $0 } }
    set { firstLook.withLock { $0 = $0 ?? newValue } }
  }
}

extension Production: Hashable {
  static func == (first: Production, second: Production) -> Bool { first === second }
  func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}

/// The produced blob is not stored: its key was changed since the production began.
struct Superseded: Error {}
