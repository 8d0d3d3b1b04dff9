import Foundation
package import Posix
import SystemPackage

extension SystemCall {
  /// A Boolean value that indicates whether new records are unnamed files until they are published, which requires
  /// Linux and a suitable file system.
  package static let hasUnnamedFiles: Bool = {
    let path = FilePath(FileManager.default.temporaryDirectory.path)
    guard let directory = try? Directory(at: path, files: Files()) else { return false }
    return (try? directory.createUnnamedFile(permissions: .ownerReadWrite)) != nil
  }()

  /// The call that creates the file of a new record.
  package static let creation: SystemCall = hasUnnamedFiles ? .openUnnamed : .open

  /// The call that gives a new record its name.
  package static let publication: SystemCall = hasUnnamedFiles ? .linkUnnamed : .renameNoReplace
}
