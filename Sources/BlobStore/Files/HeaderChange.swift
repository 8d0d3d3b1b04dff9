/// The effect of a change on a header.
enum HeaderChange {
  case changed
  case unchanged(BlobStore.Outcome)
}
