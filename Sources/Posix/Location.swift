package import SystemPackage

/// A location in the file system: the path of a directory, and names relative to it.
///
/// The parts are joined only when the path is needed. Descriptors have a location for their errors; neither copying
/// it nor appending one or two names allocates.
package struct Location: Sendable {
  private let directory: FilePath
  private let subdirectory: String
  private let name: String

  package init(_ directory: FilePath, _ name: String = "") {
    self.init(directory, "", name)
  }

  private init(_ directory: FilePath, _ subdirectory: String, _ name: String) {
    self.directory = directory
    self.subdirectory = subdirectory
    self.name = name
  }

  func appending(_ name: String, in subdirectory: String = "") -> Location {
    Location(directory, Self.joined(Self.joined(self.subdirectory, self.name), subdirectory), name)
  }

  package var path: FilePath {
    let relative = Self.joined(subdirectory, name)
    return relative.isEmpty ? directory : directory.appending(relative)
  }

  private static func joined(_ first: String, _ second: String) -> String {
    first.isEmpty ? second : second.isEmpty ? first : first + "/" + second
  }
}

/// The device and the inode, which identify a file or directory.
package struct FileIdentity: Hashable, Sendable {
  private let device: DeviceID
  private let inode: UInt64

  package init(_ status: Stat) {
    device = status.deviceID
    inode = status.inodeNumber
  }
}
