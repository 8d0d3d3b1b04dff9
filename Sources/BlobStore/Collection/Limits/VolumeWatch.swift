internal import Synchronization

/// The bytes that the volume can spare for a directory, as of the last look.
///
/// A store looks once in so many stored bytes.
final class VolumeWatch: Sendable {
  let floor: Int64?
  private let spared = Atomic(Int64.max)
  private let bytesUntilLook = BytesUntilLook(1)

  /// - Returns: nil where nothing depends on the volume.
  init?(_ configuration: BlobStore.Configuration) {
    guard configuration.limits.size != nil, configuration.limits.freeSpaceFloor != 0 else { return nil }
    floor = configuration.limits.freeSpaceFloor
  }

  /// Bytes that may lie in the directory.
  var sparedBytes: Int64 { spared.load(ordering: .relaxed) }

  /// Counts what was stored.
  ///
  /// - Returns: whether the caller is the one to look, and to say what came of it.
  func isDue(after byteCount: Int64) -> Bool { bytesUntilLook.isDue(after: byteCount) }

  /// - Parameter bytes: that lie in the directory; nil if that is not known.
  func note(_ share: VolumeShare, holding bytes: Int64?) {
    if let bytes { spared.store(share.spares(forOneHolding: bytes), ordering: .relaxed) }
    bytesUntilLook.begin(share.lookInterval)
  }

  /// The look has failed; another one may do better.
  func noteFailure() { bytesUntilLook.begin(1 << 20) }
}
