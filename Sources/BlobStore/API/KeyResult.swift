public import BlobRecord

extension BlobStore {
  /// The outcome of an operation on one key.
  public enum Outcome: String, Hashable, Sendable {
    case done
    /// No live record, or for a removal no record at all.
    case notFound
    /// An unlock found no lock; the record is unchanged.
    case notLocked
  }
}

extension BlobStore {
  /// The result for one key among several.
  public struct KeyResult: Sendable {
    public let key: BlobKey
    public let result: Result<Outcome, BlobStoreError>

    package init(key: BlobKey, result: Result<Outcome, BlobStoreError>) {
      self.key = key
      self.result = result
    }
  }
}
