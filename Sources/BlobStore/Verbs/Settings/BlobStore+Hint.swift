internal import BlobRecord
internal import Logging
internal import Posix
package import SystemPackage

extension BlobStore {
  /// The hint that lies in a directory.
  ///
  /// - Returns: nil if no program of this library has changed the directory yet, or the hint cannot be read.
  package static func hint(at directory: FilePath) throws(BlobStoreError) -> DirectoryHint? {
    try withErrorContext("open") {
      let files = Files()
      guard let directory = try Directory(at: directory, files: files) else { return nil }
      let open = try OpenRoot(directory, files.budget)
      do {
        return try open.controlFile(Logger(label: "BlobStore", factory: { _ in SwiftLogNoOpLogHandler() }))?.hint
      } catch {
        // A hint that may not be read is no hint; the caller has defaults.
        return nil
      }
    }
  }
}
