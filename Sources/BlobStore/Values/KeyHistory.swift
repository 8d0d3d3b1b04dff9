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
