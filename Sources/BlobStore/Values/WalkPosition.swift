/// Where a walk in the order of names' digests was left, and another one goes on.
package struct WalkPosition: Hashable, Sendable {
  /// Of the root's entry that comes next, or was left in its middle.
  var digest: UInt64
  /// Of the subdirectory that was left in its middle; 0 for none. Another one of its name is walked from its beginning.
  var inode: UInt64 = 0
  /// How far its listing had come.
  var offset: Int64 = 0
}
