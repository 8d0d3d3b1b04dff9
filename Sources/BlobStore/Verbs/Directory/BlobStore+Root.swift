extension BlobStore {
  /// Looks whether the root is still the one at the path; if not, it is let go as soon as no operation uses it.
  package func lookAtRoot() {
    // An error here is left to the next operation, which reports it.
    _ = try? core.root.forgetIfReplacedNow()
  }

  /// A number that grows whenever another directory may have come to the root's path, or none may be there any more.
  package var rootChanges: UInt64 { core.root.changes }
}
