internal import Posix
internal import Synchronization
internal import SystemPackage

/// A larger index in the making: filled beside the one in force, while changes go on.
///
/// No other process makes an index meanwhile, and each change knows of this one. From then on a change holds the stripe
/// of its name, and makes the same change first in the new index, then in the one in force. So the new one never lacks
/// what the other has once its record was copied.
struct PackIndexGrowth: Sendable {
  /// In force meanwhile.
  let old: PackIndex
  let new: PackIndex

  /// What has become of a record that was to be copied.
  enum Copy: Equatable, Sendable {
    case copied
    /// Its change was made in both, or it was copied before.
    case isThere
    /// No entry leads to it.
    case isDead
    /// The new index has no slot for it: the growth is given up, and begun anew with more buckets.
    case isFull
  }

  /// Makes the new index under a name of its own, in the place of one that was given up.
  ///
  /// - Parameter bucketCount: nil for half as many again.
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

  /// Unlinks an index whose growth has ended without it. It must not be in force.
  static func giveUp(in packs: PackDirectory) throws(FileError) { try packs.unlinkOwn(PackIndex.nextName) }

  /// Gives a new index that is in force the name that it should have.
  static func takeName(in packs: PackDirectory) throws(FileError) {
    let subdirectory = packs.subdirectory
    try subdirectory.directory.rename(PackIndex.nextName, to: PackIndex.name, in: subdirectory.directory)
  }

  /// Whether an entry in force leads to a record. If not, none ever will, and its stripe need not be taken.
  ///
  /// - Parameters:
  ///   - digest: of the record's name.
  ///   - address: where the record lies.
  func isCurrent(_ digest: UInt64, at address: PackAddress) -> Bool { old.find(digest, at: address) != nil }

  /// Copies the entry of a record, if it is the current one of its name and not copied yet.
  ///
  /// The caller holds the stripe of the name.
  ///
  /// - Parameters:
  ///   - digest: of the record's name.
  ///   - address: where the record lies.
  func copy(_ digest: UInt64, at address: PackAddress) -> Copy {
    guard let (slot, entry) = old.find(digest, at: address) else { return .isDead }
    if let (copy, entry) = new.find(digest, at: address) {
      // A header that was written in place came with a time from before.
      _ = new.raiseTime(to: old.time(at: slot), at: copy, of: entry)
      return .isThere
    }
    let copied = IndexEntry(tag: new.tag(of: digest), byteCount: entry.byteCount, address: address)
    guard let copy = new.insert(copied, digest, time: old.time(at: slot)) else { return .isFull }
    // A load that notes its use meanwhile finds the copy, or its time is found here.
    atomicMemoryFence(ordering: .sequentiallyConsistent)
    _ = new.raiseTime(to: old.time(at: slot), at: copy, of: copied)
    return .copied
  }
}
