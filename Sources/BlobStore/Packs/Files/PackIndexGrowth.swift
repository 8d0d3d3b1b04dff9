internal import Posix
internal import Synchronization
internal import SystemPackage

/// A larger index that is filled while the current one is in force and changes continue.
///
/// No other process creates an index in the meantime. Each change holds the stripe of its name, and is made first in
/// the new index, then in the old one. The new index therefore never lacks a change of a record that was copied.
struct PackIndexGrowth: Sendable {
  let old: PackIndex
  let new: PackIndex

  enum Copy: Equatable, Sendable {
    case copied
    /// The record was entered by its change, or copied before.
    case isThere
    /// No entry leads to the record.
    case isDead
    /// The new index has no slot, so the growth is aborted and restarted with more buckets.
    case isFull
  }

  /// Creates the new index as `nextName`, in place of an aborted one. It has 1.5 times the buckets by default.
  static func begin(
    of old: PackIndex, bucketCount: Int? = nil, in packs: PackDirectory, names: TemporaryNames
  ) throws -> PackIndexGrowth {
    try giveUp(in: packs)
    _ = try PackIndex.make(
      PackIndex.nextName, bucketCount: bucketCount ?? old.grownBucketCount, boot: old.boot, in: packs, names: names)
    switch try PackIndex.open(PackIndex.nextName, in: packs) {
    case .index(let new): return PackIndexGrowth(old: old, new: new)
    case .unusable(let reason):
      throw BlobStoreError(
        .foreignFile, "a larger index of the packs cannot be made: \(reason)",
        path: packs.path.appending(PackIndex.nextName))
    case .absent, .damaged:
      throw BlobStoreError(
        .internalInconsistency, "the index in the making is gone or changed",
        path: packs.path.appending(PackIndex.nextName))
    }
  }

  /// Unlinks the index of an aborted growth, which must not be in force.
  static func giveUp(in packs: PackDirectory) throws(FileError) { try packs.unlinkOwn(PackIndex.nextName) }

  static func takeName(in packs: PackDirectory) throws(FileError) {
    let subdirectory = packs.subdirectory
    try subdirectory.directory.rename(PackIndex.nextName, to: PackIndex.name, in: subdirectory.directory)
  }

  /// Returns whether the index in force has an entry for a record. Otherwise it never will, and no stripe is needed.
  func isCurrent(_ digest: UInt64, at address: PackAddress) -> Bool { old.find(digest, at: address) != nil }

  /// Copies the entry of a record if it is current and not copied yet, under the stripe of the name.
  func copy(_ digest: UInt64, at address: PackAddress) -> Copy {
    guard let (slot, entry) = old.find(digest, at: address) else { return .isDead }
    if let (copy, entry) = new.find(digest, at: address) {
      // A change that wrote the header in place may have entered the record with an earlier time.
      _ = new.raiseTime(to: old.time(at: slot), at: copy, of: entry)
      return .isThere
    }
    let copied = IndexEntry(tag: new.tag(of: digest), byteCount: entry.byteCount, address: address)
    guard let copy = new.insert(copied, digest, time: old.time(at: slot)) else { return .isFull }
    // Either a concurrent load finds the copy when it stores its use, or its time is read here.
    atomicMemoryFence(ordering: .sequentiallyConsistent)
    _ = new.raiseTime(to: old.time(at: slot), at: copy, of: copied)
    return .copied
  }
}
