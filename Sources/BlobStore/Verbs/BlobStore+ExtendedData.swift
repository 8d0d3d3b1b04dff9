public import BlobRecord
internal import Posix
internal import SystemPackage

extension BlobStore {
  /// Returns the extended data of a key's record, without reading the payload or touching the record.
  ///
  /// - Returns: The extended data, or `nil` if no live record exists or it has no extended data.
  /// - Throws: The errors of `header(for:)`.
  public func extendedData(for key: BlobKey) throws(BlobStoreError) -> Data? {
    try withErrorContext("extendedData", key) { try Records(core).extendedData(of: key) }
  }

  /// Replaces the extended data of a key's record, whose payload, locks and age do not change.
  ///
  /// The new data is written next to the old data before the header refers to it, so that the old data remains if the
  /// process dies in between. A file never grows beyond the space for three versions of the data.
  ///
  /// - Parameters:
  ///   - data: The extended data, at most 4 KiB, or `nil` or empty to remove it.
  ///   - key: The key of the record.
  /// - Returns: `done`, or `notFound` if no live record exists.
  /// - Throws: `extendedDataTooLarge`; `extendedDataRefused` if SPTPersistentCache may share the directory; the
  ///   errors of `lock`.
  /// - Complexity: O(1) in the payload. Records without extended data, and files with a second name, are copied.
  @discardableResult
  public func setExtendedData(_ data: Data?, for key: BlobKey) throws(BlobStoreError) -> Outcome {
    try withErrorContext("setExtendedData", key) {
      let data = data ?? Data()
      try Records(core).checkExtendedData(data)
      guard var transaction = try Records(core).transaction(of: try core.path(for: key)) else { return .notFound }
      return try transaction.rewriteExtension { $0.data = Array(data) }
    }
  }
}

extension Records {
  /// Throws if a record must not have this extended data: `extendedDataTooLarge`, `extendedDataRefused`.
  func checkExtendedData(_ data: Data) throws(BlobStoreError) {
    guard !data.isEmpty else { return }
    guard data.count <= RecordExtension.maximumDataByteCount else {
      throw BlobStoreError(
        .extendedDataTooLarge,
        "extended data of \(data.count) bytes are more than the maximum of \(RecordExtension.maximumDataByteCount); "
          + "store them as a blob of their own")
    }
    guard core.configuration.hasOwnFormat else {
      throw BlobStoreError(
        .extendedDataRefused,
        "SPTPersistentCache could not read a record with extended data, and this directory may be shared with it; the "
          + "encoded or sha256 naming and the checksummed format take them",
        path: core.root.path)
    }
  }

  /// Returns the extension of a new record, or `nil` if it needs none. Throws like `checkExtendedData`.
  func newExtension(of key: BlobKey, at path: RecordPath, _ data: Data?) throws(BlobStoreError) -> RecordExtension? {
    if let data { try checkExtendedData(data) }
    let keepsKey =
      core.configuration.hasOwnFormat && core.configuration.layout.naming.keepsKey(ofFileName: path.fileName)
      && key.string.utf8.count <= RecordExtension.maximumKeyByteCount
    guard keepsKey || data?.isEmpty == false else { return nil }
    return RecordExtension(key: keepsKey ? key : nil, data: data.map(Array.init) ?? [])
  }

  fileprivate func extendedData(of key: BlobKey) throws -> Data? {
    var place: OpenRoot?
    let lookup = OpenLookup(path: try core.path(for: key), now: core.configuration.now())
    return try readUntilConsistent(lookup, .report, &place)?.1.extension?.extendedData
  }
}
