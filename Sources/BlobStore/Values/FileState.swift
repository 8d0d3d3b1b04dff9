internal import Posix
internal import SystemPackage

/// Which file it is, and when anything about it was last changed.
struct FileState: Hashable {
  private let inode: UInt64
  private let changeNanoseconds: Int64

  init(_ status: Stat) {
    inode = status.inodeNumber
    changeNanoseconds = status.changeNanoseconds
  }
}
