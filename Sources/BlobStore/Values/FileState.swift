internal import Posix
internal import SystemPackage

/// Which file it is, and when anything about it was last changed.
struct FileState: Hashable {
  private let inode: UInt64
  private let changeNanoseconds: Int64

  /// Of a packed record, which is one as long as it lies where it does and is not used.
  init(packedAt address: UInt64, sequence: UInt64, lastUse: UInt64) {
    inode = address
    changeNanoseconds = Int64(bitPattern: sequence << 32 ^ lastUse)
  }

  init(_ status: Stat) {
    inode = status.inodeNumber
    changeNanoseconds = status.changeNanoseconds
  }
}
