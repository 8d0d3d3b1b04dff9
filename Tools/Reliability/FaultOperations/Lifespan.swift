internal import Locks
package import Posix

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#elseif canImport(Android)
  internal import Android
#endif

/// Counts the system calls and shared memory steps of a process, and kills the process before a given step.
package final class Lifespan: Sendable {
  private let seen = Lock<[SystemCall]>([])
  private let last: Int?

  /// - Parameter last: The step before which the process is killed, counted from 1, or `nil` to let it run.
  package init(endsBefore last: Int? = nil) { self.last = last }

  /// The names of the steps so far, in order.
  package var steps: [String] { seen.withLock { $0.map(\.rawValue) } }

  package var files: Files {
    Files { [self] call, _ in
      let count = seen.withLock { steps in
        steps.append(call)
        return steps.count
      }
      if count == last { kill(getpid(), SIGKILL) }
      return nil
    }
  }
}
