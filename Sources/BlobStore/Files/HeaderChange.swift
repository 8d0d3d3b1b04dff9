enum HeaderChange {
  case changed
  case unchanged(BlobStore.Outcome)
}
