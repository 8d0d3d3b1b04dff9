package import SystemPackage

/// Device and inode, which tell a file or directory from every other one.
package struct FileIdentity: Hashable, Sendable {
  private let device: DeviceID
  private let inode: UInt64

  package init(_ status: Stat) {
    device = status.deviceID
    inode = status.inodeNumber
  }
}
