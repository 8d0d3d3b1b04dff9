extension BlobStore {
  /// From when on a blob that is written in pieces is seen under its key.
  public enum Visibility: Sendable {
    /// The blob takes the place of the old one once it is whole.
    case afterCommit
    /// The blob takes the place of the old one at once, and followers read it while it grows.
    ///
    /// Until the commit, loads answer `recordIsStreamAndBusy`. A writer that dies or gives up leaves the key without a
    /// blob.
    case whileWriting
  }
}
