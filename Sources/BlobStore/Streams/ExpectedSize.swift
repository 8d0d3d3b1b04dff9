/// The size that a payload must have, where that is known.
struct ExpectedSize: Sendable {
  let byteCount: Int64?

  /// - Throws: `sizeMismatch` for a size below zero.
  init(_ byteCount: Int64?) throws(BlobStoreError) {
    if let byteCount, byteCount < 0 {
      throw BlobStoreError(.sizeMismatch, "an expected size of \(byteCount) bytes is below zero")
    }
    self.byteCount = byteCount
  }

  /// Checks a payload that has become larger.
  ///
  /// - Throws: `sizeMismatch`; `payloadTooLarge`.
  func checkGrowth(to total: Int64, in core: StoreCore) throws(BlobStoreError) {
    if let byteCount, total > byteCount { throw mismatch(found: "at least \(total)", byteCount) }
    try core.checkSize(total)
  }

  /// Checks a payload that has come to its end.
  ///
  /// - Throws: `sizeMismatch`.
  func checkEnd(at total: Int64) throws(BlobStoreError) {
    if let byteCount, total != byteCount { throw mismatch(found: "\(total)", byteCount) }
  }

  private func mismatch(found: String, _ byteCount: Int64) -> BlobStoreError {
    BlobStoreError(.sizeMismatch, "\(found) bytes arrived where \(byteCount) were expected")
  }
}
