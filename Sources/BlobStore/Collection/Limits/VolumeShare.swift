internal import Posix

/// The bytes that a volume can spare for a directory: all but the free space floor.
struct VolumeShare {
  private let total: Int64
  private let available: Int64
  private let floor: Int64

  /// System call: `fstatvfs(3)`.
  ///
  /// - Parameter floor: bytes to be left free; nil for a tenth of the volume, 4 GiB at most.
  init(of directory: borrowing Directory, floor: Int64?) throws(FileError) {
    (total, available) = try directory.volumeSpace()
    self.floor = floor ?? min(total / 10, 4 << 30)
  }

  /// How many bytes may lie in a directory that holds so many.
  ///
  /// - Parameter freed: bytes that count as gone, and are still there.
  func spares(forOneHolding bytes: Int64, freed: Int64 = 0) -> Int64 {
    max(0, available.saturatingAdding(freed).saturatingAdding(bytes).saturatingSubtracting(floor))
  }

  /// Whether so many bytes may find room once so many more are gone. A quota may say no all the same.
  func mayHold(_ byteCount: Int64, onceFreed bytes: Int64) -> Bool { available.saturatingAdding(bytes) >= byteCount }

  /// Bytes to store until the next look: a thousandth of the volume.
  ///
  /// That is a hundredth of the usual floor.
  var lookInterval: Int64 { min(max(total / 1024, 1 << 20), 64 << 20) }
}
