public import BlobRecord
internal import Posix
internal import SystemPackage

extension BlobStore {
  /// What lies beside a key's payload, without a look at the payload; the record is not touched.
  ///
  /// - Returns: nil if there is no live record, or nothing was stored beside its payload.
  /// - Throws: as `header(for:)`.
  public func extendedData(for key: BlobKey) throws(BlobStoreError) -> Data? {
    try withErrorContext("extendedData", key) { try core.extendedData(of: key) }
  }

  /// Replaces what lies beside a key's payload. The payload, the locks and the age of the record stay as they are.
  ///
  /// The new ones are written beside the old ones, and the header names them then. A process that dies in between leaves
  /// the old ones. However often that is done, a file has room for three.
  ///
  /// - Parameters:
  ///   - data: at most 4 KiB; nil or empty for nothing.
  ///   - key: the key of the record.
  /// - Returns: `done`; `notFound` if there is no live record.
  /// - Throws: `extendedDataTooLarge`; `extendedDataRefused` in a directory that SPTPersistentCache may share; else as
  ///   `lock`.
  /// - Complexity: O(1) in the payload. But a record that was stored without extended data is copied the first time, and
  ///   so is one whose file has another name.
  @discardableResult
  public func setExtendedData(_ data: Data?, for key: BlobKey) throws(BlobStoreError) -> Outcome {
    try withErrorContext("setExtendedData", key) {
      let data = data ?? Data()
      try core.checkExtendedData(data)
      guard var transaction = try core.transaction(of: try core.path(for: key)) else { return .notFound }
      return try transaction.rewriteExtension { $0.data = Array(data) }
    }
  }
}

extension StoreCore {
  /// Whether a record may have extended data, and so many.
  ///
  /// - Throws: `extendedDataTooLarge`, `extendedDataRefused`.
  func checkExtendedData(_ data: Data) throws(BlobStoreError) {
    guard !data.isEmpty else { return }
    guard data.count <= RecordExtension.maximumDataByteCount else {
      throw BlobStoreError(
        .extendedDataTooLarge,
        "extended data of \(data.count) bytes are more than the maximum of \(RecordExtension.maximumDataByteCount); "
          + "store them as a blob of their own")
    }
    guard configuration.hasOwnFormat else {
      throw BlobStoreError(
        .extendedDataRefused,
        "SPTPersistentCache could not read a record with extended data, and this directory may be shared with it; the "
          + "encoded or sha256 naming and the checksummed format take them",
        path: root.path)
    }
  }

  /// What a new record of a key has behind its payload; nil for nothing.
  ///
  /// - Throws: as `checkExtendedData`.
  func newExtension(of key: BlobKey, at path: RecordPath, _ data: Data?) throws(BlobStoreError) -> RecordExtension? {
    if let data { try checkExtendedData(data) }
    let keepsKey =
      configuration.hasOwnFormat && configuration.layout.naming.keepsKey(ofFileName: path.fileName)
      && key.string.utf8.count <= RecordExtension.maximumKeyByteCount
    guard keepsKey || data?.isEmpty == false else { return nil }
    return RecordExtension(key: keepsKey ? key : nil, data: data.map(Array.init) ?? [])
  }

  fileprivate func extendedData(of key: BlobKey) throws -> Data? {
    var place: OpenRoot?
    let lookup = OpenLookup(path: try path(for: key), now: configuration.now())
    return try readUntilConsistent(lookup, .report, &place)?.1.extension?.extendedData
  }
}
