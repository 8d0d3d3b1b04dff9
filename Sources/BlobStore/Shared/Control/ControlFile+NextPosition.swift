/// Where a collection that was cut short goes on, by the holder of the collector's lock.
extension ControlFile {
  var nextPosition: WalkPosition {
    get {
      WalkPosition(
        digest: UInt64(bitPattern: word(at: ControlLayout.nextNameOffset)),
        inode: UInt64(bitPattern: word(at: ControlLayout.nextInodeOffset)),
        offset: word(at: ControlLayout.nextOffsetOffset))
    }
    set {
      // In this order: a process that dies between two of them leaves no offset for another subdirectory.
      setWord(0, at: ControlLayout.nextInodeOffset)
      setWord(Int64(bitPattern: newValue.digest), at: ControlLayout.nextNameOffset)
      setWord(newValue.offset, at: ControlLayout.nextOffsetOffset)
      setWord(Int64(bitPattern: newValue.inode), at: ControlLayout.nextInodeOffset)
    }
  }
}
