internal import Locks
internal import Posix
internal import Synchronization

/// One process's part in a control file, with the token by which it holds stripes.
///
/// A session is a slot of the file and a lock on the slot's byte. The kernel frees that lock when the process dies, so others
/// can tell a stripe that is held from one that was left behind. A token is random but for the slot's number, so none comes
/// again, whatever a power cut has left of the file.
final class Session: Sendable {
  /// 0 until the session has begun.
  private let known = Atomic<UInt64>(0)
  private let isBeginning = Lock(())

  /// Why a session cannot begin.
  enum Obstacle: Error {
    /// Each slot has a living process.
    case allAreTaken
    /// A program that locks bytes is changing a record.
    case bytesAreLocked
  }

  /// The token, if the session has begun; else 0, which is no token.
  var knownToken: UInt64 { known.load(ordering: .acquiring) }

  /// The token of this process, which begins its session if it has none.
  ///
  /// - Throws: `Obstacle`; `FileError`.
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
  /// Takes the first slot that no living process has.
  ///
  /// System calls: `fcntl(2)` for each slot up to that one, and `fcntl(2)`.
  fileprivate func beginSession() throws -> UInt64 {
    for number in 0..<ControlLayout.sessionCount {
      // Held until the file is closed.
      guard try file.tryLock(ControlLayout.sessionByte(number)) else { continue }
      var hasBegun = false
      defer { if !hasBegun { file.unlock(ControlLayout.sessionByte(number)) } }
      // Earlier versions of this library, and processes that cannot share the memory, lock a stripe's byte for a change.
      // So that they change nothing beside this one, it holds shared locks on all of them.
      guard try file.tryLock(ControlLayout.stripeBytes, isShared: true) else { throw Session.Obstacle.bytesAreLocked }
      hasBegun = true
      let token = ControlLayout.newToken(for: number)
      // The lock comes first: nothing with the new token is ever taken for a leftover.
      file.withWord(at: ControlLayout.sessionTokenOffset(number), as: UInt64.self) {
        $0.store(token, ordering: .sequentiallyConsistent)
      }
      setWord(Int64(CurrentProcess.identifier), at: ControlLayout.sessionProcessOffset(number))
      return token
    }
    throw Session.Obstacle.allAreTaken
  }

  /// Whether a token is this file's own session's.
  func isOwn(_ token: UInt64) -> Bool { token == session.knownToken }

  /// Whether the process of a token lives; not for a token of this file's own session.
  ///
  /// System call: `fcntl(2)` with `F_OFD_GETLK`, unless the slot was taken anew.
  func isAlive(_ token: UInt64) throws(FileError) -> Bool {
    let number = ControlLayout.sessionNumber(of: token)
    let current = file.withWord(at: ControlLayout.sessionTokenOffset(number), as: UInt64.self) {
      $0.load(ordering: .sequentiallyConsistent)
    }
    guard current == token else { return false }
    return try file.areLockedElsewhere(ControlLayout.sessionByte(number))
  }

  /// Whether the process of any token lives, that of this file's own session among them.
  ///
  /// System call: as for `isAlive`; none for its own.
  func isOwnOrAlive(_ token: UInt64) throws(FileError) -> Bool {
    if isOwn(token) { return true }
    return try isAlive(token)
  }

  /// Whether another process has a session, or another store of this one.
  ///
  /// System call: `fcntl(2)` with `F_OFD_GETLK`.
  func hasOtherSessions() throws(FileError) -> Bool {
    try file.areLockedElsewhere(
      ControlLayout.sessionByte(0).lowerBound..<ControlLayout.sessionByte(ControlLayout.sessionCount - 1).upperBound)
  }

  /// The process that last took a token's slot; nil where the file has no process's number.
  func process(of token: UInt64) -> Int32? {
    Int32(exactly: word(at: ControlLayout.sessionProcessOffset(ControlLayout.sessionNumber(of: token))))
      .flatMap { $0 > 0 ? $0 : nil }
  }
}
