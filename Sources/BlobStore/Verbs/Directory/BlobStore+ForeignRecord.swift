public import BlobRecord
internal import Posix

extension BlobStore {
  /// The file in the place of a key's record that is foreign because of its owner.
  ///
  /// - Returns: nil for a record, and where no file is.
  public func foreignRecord(for key: BlobKey) throws(BlobStoreError) -> ForeignRecord? {
    try withErrorContext("foreignRecord", key) {
      let name = try core.path(for: key)
      guard let open = try core.root.opened() else { return nil }
      let path = open.placed(name)
      return try core.lookInSubdirectory(of: path, open) { try open.foreignRecord(at: path, in: $0) }
    }
  }
}
