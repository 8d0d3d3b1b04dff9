/// The location of a record in a pack (Spec/PackFormat.md).
public struct PackedPlace: Hashable, Sendable {
  /// The number of the pack, from 0 to 1023.
  public let pack: Int
  /// The number of the chunk in its pack, from 0 to 1023.
  public let chunk: Int
  /// The offset of the record from the start of the chunk, in bytes.
  public let offset: Int
  /// The sequence number of the record among all that the directory ever packed, or 0 if its header is damaged.
  public let sequence: UInt64

  /// The pack, chunk, and offset in one word.
  let address: UInt64
}

/// The position at which a walk in the order of the names' digests stopped, where another walk continues.
package struct WalkPosition: Hashable, Sendable {
  /// The digest of the root's entry that is next, or in which the walk stopped.
  var digest: UInt64
  /// The subdirectory in which the walk stopped, or 0. Another one with the same name is walked from its beginning.
  var inode: UInt64 = 0
  /// The offset in the listing of the subdirectory.
  var offset: Int64 = 0
}

/// The error for an index without room for another name, in which case the record has to be a file.
struct IndexIsFull: Error {}

/// The error for packs without room for a record, in which case the record has to be a file.
struct PacksAreFull: Error {}
