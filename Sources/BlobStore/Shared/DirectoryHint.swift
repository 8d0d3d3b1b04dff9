package import BlobRecord
internal import Logging
internal import Posix
package import SystemPackage

/// How the last program that changed a directory sees it: what `Configuration(following:)` goes by.
package struct DirectoryHint: Hashable, Sendable {
  /// Seconds.
  package var defaultExpiration: Int64
  /// Bytes; nil for no limit.
  package var sizeLimit: Int64?
  package var layout: RecordLayout

  package init(defaultExpiration: Int64, sizeLimit: Int64? = nil, layout: RecordLayout = RecordLayout()) {
    self.defaultExpiration = defaultExpiration
    self.sizeLimit = sizeLimit
    self.layout = layout
  }
}

extension BlobStore {
  /// The hint that lies in a directory.
  ///
  /// - Returns: nil if there is none: no library program has changed the directory yet, or it cannot be read.
  package static func hint(at directory: FilePath) throws(BlobStoreError) -> DirectoryHint? {
    try reporting("open") {
      let files = Files()
      guard let directory = try Directory(at: directory, files: files) else { return nil }
      let open = try OpenRoot(directory, files.budget)
      do {
        return try open.controlFile(Logger(label: "BlobStore", factory: { _ in SwiftLogNoOpLogHandler() }))?.hint
      } catch {
        // A hint that may not be read is no hint; whoever asked has defaults.
        return nil
      }
    }
  }
}
