internal import Posix
internal import Synchronization
internal import SystemPackage

extension ControlFile {
  /// Ends what the words of a damaged control file bind, so that it can be replaced.
  ///
  /// A process that had it mapped before the damage may be in the middle of a change. So the magic goes first, which each
  /// process looks at once it has exchanged a word; then the words are looked at. Of the two, one sees the other.
  ///
  /// System calls: `pwrite(2)`, `pread(2)`; `fcntl(2)` for each word that has a session's token.
  ///
  /// - Returns: false if a living process holds a stripe by its word: try again.
  static func void(_ file: borrowing OpenFile, _ status: Stat) throws -> Bool {
    // An earlier version had no words. In a file that was cut, no process can reach the words behind its end.
    guard status.size > Int64(ControlLayout.sessionsOffset) else { return true }
    try file.write(unsafe [UInt64(0)].span.bytes, at: Int64(ControlLayout.magicOffset))
    atomicMemoryFence(ordering: .sequentiallyConsistent)
    // By a call: others may cut the file, and then a read of a mapping would end this process.
    var words = [UInt64](repeating: 0, count: (ControlLayout.byteCount - ControlLayout.sessionsOffset) / 8)
    try unsafe words.withUnsafeMutableBytes { bytes in
      _ = try unsafe file.read(into: bytes, at: Int64(ControlLayout.sessionsOffset))
    }
    func word(at offset: Int) -> UInt64 { UInt64(littleEndian: words[(offset - ControlLayout.sessionsOffset) / 8]) }
    for stripe in 0..<ControlLayout.stripeCount {
      let holder = word(at: ControlLayout.stripeOffset(stripe))
      let number = ControlLayout.sessionNumber(of: holder)
      guard holder != 0, word(at: ControlLayout.sessionTokenOffset(number)) == holder else { continue }
      if try file.areLockedElsewhere(bytes: ControlLayout.sessionByte(number)) { return false }
    }
    return true
  }
}
