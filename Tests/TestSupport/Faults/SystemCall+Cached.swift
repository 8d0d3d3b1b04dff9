import Foundation
package import Posix
import SystemPackage

extension SystemCall {
  /// A Boolean value that indicates whether kernel and file system support nonblocking lookups.
  package static let hasCachedLookups: Bool = {
    guard let temporary = try? TemporaryDirectory(), let directory = try? Directory(at: temporary.path, files: Files()),
      (try? Data([1]).write(to: temporary.url("file"))) != nil,
      case .regular(let file, _)? = try? directory.openCachedFile("file", in: "")
    else { return false }
    return withUnsafeTemporaryAllocation(byteCount: 1, alignment: 1) { byte in (try? file.readCached(into: byte)) == 1 }
  }()
}
