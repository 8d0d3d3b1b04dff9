package import BlobRecord

/// The sum of a key's changes. It stays equal as long as nothing changes or removes the key's blob.
///
/// Two numbers, because a wipe changes the generation only of keys that have a record.
package struct KeyHistory: Hashable, Sendable {
  /// nil where there are no generations.
  package var generation: UInt64?
  /// Wipes that have begun, and those that have ended; nil where they are not counted.
  package var wipes: Int64?

  package init(generation: UInt64? = nil, wipes: Int64? = nil) {
    self.generation = generation
    self.wipes = wipes
  }
}

/// A load that a cache in front of the store answers.
package struct MemoryHit {
  let byteCount: Int
  let isUse: Bool
  let time: UnixTime

  /// - Parameter isUse: false for a load that does not touch.
  package init(byteCount: Int, isUse: Bool, at time: UnixTime) {
    self.byteCount = byteCount
    self.isUse = isUse
    self.time = time
  }
}
