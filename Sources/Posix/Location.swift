package import SystemPackage

/// A place in the file system: a directory's path and names relative to it.
///
/// They are joined only when the path is asked for. Descriptors carry one for their errors; copying it allocates
/// nothing, and neither does going down by a name or two.
package struct Location: Sendable {
  private let directory: FilePath
  /// Where it lies below the directory; empty if it lies in the directory itself.
  private let subdirectory: String
  /// Empty for the directory itself.
  private let name: String

  package init(_ directory: FilePath, _ name: String = "") {
    self.init(directory, "", name)
  }

  private init(_ directory: FilePath, _ subdirectory: String, _ name: String) {
    self.directory = directory
    self.subdirectory = subdirectory
    self.name = name
  }

  /// A place in this one, or in a subdirectory of this one.
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

/// Device and inode, which tell a file or directory from every other one.
package struct FileIdentity: Hashable, Sendable {
  private let device: DeviceID
  private let inode: UInt64

  package init(_ status: Stat) {
    device = status.deviceID
    inode = status.inodeNumber
  }
}
