package import BlobRecord

/// A summary of a key's changes, which stays equal until the key's blob is changed or removed.
///
/// It has two numbers, because a wipe changes the generation only of keys that have a record.
package struct KeyHistory: Hashable, Sendable {
  /// The generation, or `nil` if the directory has no generations.
  package var generation: UInt64?
  /// The number of started wipes plus the number of ended wipes, or `nil` if they are not counted.
  package var wipes: Int64?

  package init(generation: UInt64? = nil, wipes: Int64? = nil) {
    self.generation = generation
    self.wipes = wipes
  }
}

/// A load that a cache in front of the store has served from memory.
package struct MemoryHit {
  let byteCount: Int
  let isUse: Bool
  let time: UnixTime

  package init(byteCount: Int, isUse: Bool, at time: UnixTime) {
    self.byteCount = byteCount
    self.isUse = isUse
    self.time = time
  }
}
