import Foundation
package import Posix
import SystemPackage

extension SystemCall {
  /// Whether new records are files without a name until they are published: on Linux, where the file system of the tests
  /// has such files.
  package static let hasUnnamedFiles: Bool = {
    let path = FilePath(FileManager.default.temporaryDirectory.path)
    guard let directory = try? Directory(at: path, files: Files()) else { return false }
    return (try? directory.createUnnamedFile(permissions: .ownerReadWrite)) != nil
  }()

  /// What makes the file of a new record.
  package static let creation: SystemCall = hasUnnamedFiles ? .openUnnamed : .open

  /// What gives a new record its name.
  package static let publication: SystemCall = hasUnnamedFiles ? .linkUnnamed : .renameNoReplace
}
