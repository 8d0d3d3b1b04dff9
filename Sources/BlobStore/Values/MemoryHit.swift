package import BlobRecord

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
