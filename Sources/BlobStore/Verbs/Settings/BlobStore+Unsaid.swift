package import BlobRecord
internal import Logging
internal import Posix
package import SystemPackage

extension BlobStore {
  /// Returns the arrangement of a directory's records, for a store that leaves it to the directory, or `nil` for a
  /// directory without records, for which the next store decides. The naming must be the directory's.
  package static func arrangementOfRecords(
    in directory: FilePath, naming: RecordNaming
  ) throws(BlobStoreError) -> RecordArrangement? {
    try withErrorContext("open") {
      let files = Files()
      guard let directory = try Directory(at: directory, files: files) else { return nil }
      let open = try OpenRoot(directory, files.budget)
      var configuration = Configuration()
      configuration.layout.naming = naming
      configuration.logger = Logger(label: "BlobStore", factory: { _ in SwiftLogNoOpLogHandler() })
      try open.findArrangement(configuration, settings: try open.settings(), isForStore: false)
      return open.mustSayArrangement && open.arrangement == .spread ? nil : open.arrangement
    }
  }
}
