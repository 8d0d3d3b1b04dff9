/// The position at which an interrupted collection continues, protected by the collector's lock.
extension ControlFile {
  var nextPosition: WalkPosition {
    get {
      WalkPosition(
        digest: UInt64(bitPattern: word(at: ControlLayout.nextNameOffset)),
        inode: UInt64(bitPattern: word(at: ControlLayout.nextInodeOffset)),
        offset: word(at: ControlLayout.nextOffsetOffset))
    }
    set {
      // The order matters: a process that dies in between leaves no offset for another subdirectory.
      setWord(0, at: ControlLayout.nextInodeOffset)
      setWord(Int64(bitPattern: newValue.digest), at: ControlLayout.nextNameOffset)
      setWord(newValue.offset, at: ControlLayout.nextOffsetOffset)
      setWord(Int64(bitPattern: newValue.inode), at: ControlLayout.nextInodeOffset)
    }
  }
}
