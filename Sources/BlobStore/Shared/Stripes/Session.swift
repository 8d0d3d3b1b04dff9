internal import Locks
internal import Posix
internal import Synchronization

/// A process's session in a control file, with the token by which it holds stripes.
///
/// A session is a slot of the file and a lock on the slot's byte. The kernel frees the lock when the process dies,
/// which distinguishes a held stripe from an abandoned one. Except for the slot's number, a token is random, so it is
/// never repeated, even after a power cut has damaged the file.
final class Session: Sendable {
  private let known = Atomic<UInt64>(0)
  private let isBeginning = Lock(())

  /// A reason that keeps a session from beginning.
  enum Obstacle: Error {
    /// Each slot has a living process.
    case allAreTaken
    /// A process that locks the bytes of stripes, not their words, is changing a record.
    case bytesAreLocked
  }

  /// The token, or 0, which is not a valid token, before the session has begun.
  var knownToken: UInt64 { known.load(ordering: .acquiring) }

  /// Returns the token of this process, and begins its session if needed.
  func token(in control: ControlFile) throws -> UInt64 {
    if knownToken == 0 {
      try isBeginning.withLock { _ in
        if knownToken == 0 { known.store(try control.beginSession(), ordering: .releasing) }
      }
    }
    return knownToken
  }
}

extension ControlFile {
  /// Takes the first slot without a living process, by `fcntl(2)` for each slot up to it and for the stripes.
  fileprivate func beginSession() throws -> UInt64 {
    for number in 0..<ControlLayout.sessionCount {
      // The lock is held until the file is closed.
      guard try file.tryLock(ControlLayout.sessionByte(number)) else { continue }
      var hasBegun = false
      defer { if !hasBegun { file.unlock(ControlLayout.sessionByte(number)) } }
      // Earlier versions of this library, and processes without shared memory, lock a stripe's byte for a change. The
      // shared locks on all of these bytes keep them from changing anything concurrently.
      guard try file.tryLock(ControlLayout.stripeBytes, isShared: true) else { throw Session.Obstacle.bytesAreLocked }
      try file.allocate(ControlLayout.sessionTokenOffset(number))
      hasBegun = true
      let token = ControlLayout.newToken(for: number)
      // The lock is taken first, so a new token is never mistaken for an abandoned one.
      file.withWord(at: ControlLayout.sessionTokenOffset(number), as: UInt64.self) {
        $0.store(token, ordering: .sequentiallyConsistent)
      }
      setWord(Int64(CurrentProcess.identifier), at: ControlLayout.sessionProcessOffset(number))
      return token
    }
    throw Session.Obstacle.allAreTaken
  }

  func isOwn(_ token: UInt64) -> Bool { token == session.knownToken }

  /// Returns whether the process of a token, which must not belong to this file's session, is alive, by `fcntl(2)`
  /// with `F_OFD_GETLK` unless another process has taken the slot.
  func isAlive(_ token: UInt64) throws(FileError) -> Bool {
    let number = ControlLayout.sessionNumber(of: token)
    let current = file.withWord(at: ControlLayout.sessionTokenOffset(number), as: UInt64.self) {
      $0.load(ordering: .sequentiallyConsistent)
    }
    guard current == token else { return false }
    return try file.areLockedElsewhere(ControlLayout.sessionByte(number))
  }

  /// Returns whether the process of any token is alive, without a system call for this file's session.
  func isOwnOrAlive(_ token: UInt64) throws(FileError) -> Bool {
    if isOwn(token) { return true }
    return try isAlive(token)
  }

  /// Returns whether another process, or another store of this one, has a session, by `fcntl(2)` with `F_OFD_GETLK`.
  func hasOtherSessions() throws(FileError) -> Bool {
    try file.areLockedElsewhere(
      ControlLayout.sessionByte(0).lowerBound..<ControlLayout.sessionByte(ControlLayout.sessionCount - 1).upperBound)
  }

  func process(of token: UInt64) -> Int32? {
    Int32(exactly: word(at: ControlLayout.sessionProcessOffset(ControlLayout.sessionNumber(of: token))))
      .flatMap { $0 > 0 ? $0 : nil }
  }
}
