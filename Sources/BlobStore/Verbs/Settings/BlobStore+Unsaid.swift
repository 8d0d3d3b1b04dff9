package import BlobRecord
internal import Logging
internal import Posix
package import SystemPackage

extension BlobStore {
  /// Where the records of a directory lie, for a store that leaves it to the directory.
  ///
  /// - Parameter naming: the directory's.
  /// - Returns: nil for a directory without records, which the next store decides for.
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
