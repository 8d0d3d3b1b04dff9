internal import Posix
internal import SystemPackage

extension SharedFile {
  /// One kind of shared file: its name, its version, and the bytes that are locked.
  struct Format: Sendable {
    let name: String
    /// What messages call it.
    let title: String
    /// What is lost where no process can map it, in messages.
    let loss: String
    /// The first word.
    let magic: UInt64
    /// The second word.
    let version: UInt64
    /// The bytes that are mapped: the whole file, unless it goes on behind them.
    let byteCount: Int
    /// Whether the file goes on behind the bytes that are mapped.
    var mayBeLonger = false
    /// Bytes that a change may lock: a damaged file is replaced by the one that has them all.
    let lockedBytes: Range<Int64>
    /// More of them, which sessions lock too, but not for a change.
    var sharedBytes: Range<Int64> = 0..<0
    /// The first words of a new file, magic and version first.
    let firstWords: @Sendable () -> [UInt64]

    func isLength(_ length: Int64) -> Bool {
      mayBeLonger ? length >= Int64(byteCount) : length == Int64(byteCount)
    }

    /// Whether a file has the name.
    func isLinked(_ status: Stat, in directory: borrowing Directory) throws(FileError) -> Bool {
      guard let linked = try directory.status(of: name) else { return false }
      return linked.deviceID == status.deviceID && linked.inode == status.inode
    }
  }
}
