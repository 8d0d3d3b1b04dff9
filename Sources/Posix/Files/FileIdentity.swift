package import SystemPackage

/// What tells a file or directory from every other one there is: its device and its inode.
package struct FileIdentity: Hashable, Sendable {
  private let device: DeviceID
  private let inode: UInt64

  package init(_ status: Stat) {
    device = status.deviceID
    inode = status.inodeNumber
  }
}
