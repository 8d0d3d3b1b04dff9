/// The outcome of a try to commit a record.
enum CommitOutcome {
  /// It has its place. If there is more than may stay now, or it is not known how much there is, that is in it.
  case done(exceeding: BlobStore.UsageEstimate?)
  /// Something has the name, or the file system cannot tell.
  case nameIsTaken
  /// There would be more than there may ever be.
  case mustWait(BlobStore.UsageEstimate)
}
