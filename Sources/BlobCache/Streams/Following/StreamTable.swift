internal import BlobRecord
internal import Locks

/// The streams that are produced in this process: one for each key.
final class StreamTable: Sendable {
  private let productions = Lock<[BlobKey: StreamProduction]>([:])

  /// The production of a key; nil if none is under way.
  func production(of key: BlobKey) -> StreamProduction? { productions.withLock { $0[key] } }

  /// The production of a key, which the caller has to begin if it is new.
  func production(of key: BlobKey, _ options: StreamOptions) -> (StreamProduction, isNew: Bool) {
    productions.withLock { productions in
      if let production = productions[key] { return (production, false) }
      let production = StreamProduction(key, options)
      productions[key] = production
      return (production, true)
    }
  }

  func end(_ production: StreamProduction) {
    productions.withLock { productions in
      if productions[production.key] === production { productions[production.key] = nil }
    }
    production.opening.come()
  }
}
