internal import Locks
internal import Posix

/// Counts this process's holds of production locks, because the kernel counts the holds of all its threads as one.
final class ProductionLocks: Sendable {
  private struct Held: Hashable {
    let control: ObjectIdentifier
    let byte: Int64
  }

  private let held = Lock<[Held: Int]>([:])

  /// Returns `nil` if the control file was deleted.
  func tryLock(_ digest: UInt64, of control: ControlFile, in directory: borrowing Directory) throws -> Bool? {
    let bytes = ControlLayout.productionByte(of: digest)
    let key = Held(control: ObjectIdentifier(control), byte: bytes.lowerBound)
    // The mutex spans the system call, so that one thread's unlock cannot release a lock that another just acquired.
    return try held.withLock { held in
      if let count = held[key] {
        held[key] = count + 1
        return true
      }
      let isTaken = try control.file.tryLock(bytes, in: directory)
      if isTaken == true { held[key] = 1 }
      return isTaken
    }
  }

  func unlock(_ digest: UInt64, of control: ControlFile) {
    let bytes = ControlLayout.productionByte(of: digest)
    let key = Held(control: ObjectIdentifier(control), byte: bytes.lowerBound)
    held.withLock { held in
      guard let count = held[key] else { return }
      held[key] = count > 1 ? count - 1 : nil
      if count == 1 { control.file.unlock(bytes) }
    }
  }
}
