import Foundation
import Locks

#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#elseif canImport(Android)
  import Android
#endif

/// Runs a closure on a separate thread, and abandons it when it hangs.
enum Bounded {
  private final class Box<Result: Sendable>: Sendable {
    let result = Lock<Result?>(nil)
    let isDone = DispatchSemaphore(value: 0)
  }

  /// - Parameter user: The user whose permissions the thread has (Linux, as root), or `nil` for the process's user.
  /// - Returns: The result, or `nil` if `body` did not end in time. Its thread leaks, because it cannot be ended.
  static func run<Result: Sendable>(
    seconds: Double, as user: UInt32? = nil, _ body: @escaping @Sendable () -> Result
  ) -> Result? {
    let box = Box<Result>()
    let thread = Thread {
      if let user { FileSystemUser.assume(user) }
      let result = body()
      box.result.withLock { $0 = result }
      box.isDone.signal()
    }
    thread.stackSize = 4 << 20
    thread.start()
    guard box.isDone.wait(timeout: .now() + seconds) == .success else { return nil }
    return box.result.withLock { $0 }
  }
}

/// Another user's permissions for one thread: setfsuid(2), for which Linux drops root's privileges over files.
enum FileSystemUser {
  private typealias SetUser = @convention(c) (UInt32) -> CInt

  static let nobody: UInt32 = 65_534

  /// The library's function, which Swift's C library module does not import, or `nil` if the library lacks it.
  private static let set: SetUser? = dlsym(nil, "setfsuid").map { unsafeBitCast($0, to: SetUser.self) }

  static var isAvailable: Bool { geteuid() == 0 && set != nil }

  static func assume(_ user: UInt32) {
    _ = set?(user)
  }
}
