/// Where a record lies that shares a file with others: Spec/PackFormat.md.
public struct PackedPlace: Hashable, Sendable {
  /// The number of the pack: 0 to 1023.
  public let pack: Int
  /// The number of the chunk in its pack: 0 to 1023.
  public let chunk: Int
  /// Bytes from the chunk's begin.
  public let offset: Int
  /// The number of the record among all that were ever packed in the directory; 0 of a record whose header is damaged.
  public let sequence: UInt64

  /// Pack, chunk and offset in one word.
  let address: UInt64
  /// The pack's path relative to the root.
  public let file: String
}

/// Where a walk in the order of names' digests was left, and another one goes on.
package struct WalkPosition: Hashable, Sendable {
  /// Of the root's entry that comes next, or was left in its middle.
  var digest: UInt64
  /// Of the subdirectory that was left in its middle; 0 for none. Another one of its name is walked from its beginning.
  var inode: UInt64 = 0
  /// How far its listing had come.
  var offset: Int64 = 0
}

/// The index has no room for another name, so its record has to be a file.
struct IndexIsFull: Error {}

/// No pack has room for a record, so it has to be a file.
struct PacksAreFull: Error {}
