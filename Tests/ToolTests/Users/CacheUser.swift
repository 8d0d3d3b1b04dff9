import Foundation
import Locks
import SystemPackage
import TestSupport
import Testing

#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#elseif canImport(Android)
  import Android
#endif

/// The users that share a machine in permission tests. Their IDs need no entry in a password file.
///
/// Their programs are separate processes (`SharedRoot.run`). Other calls run on a thread that has only their
/// permissions for files (`act`).
enum CacheUser: String, CaseIterable, CustomTestStringConvertible {
  case superuser
  /// The owner of the root.
  case owner
  /// A member of the root's group.
  case member
  case stranger

  /// The group of owner and member.
  static let sharedGroup: UInt32 = 41_100

  var id: UInt32 {
    switch self {
    case .superuser: 0
    case .owner: 41_001
    case .member: 41_002
    case .stranger: 41_003
    }
  }

  /// The group of the user's new files if the directory does not set another.
  var group: UInt32 {
    switch self {
    case .superuser: 0
    case .owner, .member: Self.sharedGroup
    case .stranger: id
    }
  }

  var testDescription: String { rawValue }

  /// Returns a program and its arguments that run another program as the user.
  ///
  /// - Parameter ownGroup: A Boolean value that indicates whether the user has a private group before the shared one.
  func wrapper(ownGroup: Bool = false) -> [String] {
    guard self != .superuser else { return [] }
    let first = ownGroup ? id : group
    let others = ownGroup && group != id ? ["--groups=\(group)"] : ["--clear-groups"]
    return ["setpriv", "--reuid=\(id)", "--regid=\(first)"] + others
  }
}

// MARK: - Acting as one of them

extension CacheUser {
  private typealias SetUser = @convention(c) (UInt32) -> CInt

  /// setfsuid(2) and setfsgid(2), which Swift's C library module does not import, or `nil` if the system lacks them.
  private static let setUser: SetUser? = dlsym(nil, "setfsuid").map { unsafeBitCast($0, to: SetUser.self) }
  private static let setGroup: SetUser? = dlsym(nil, "setfsgid").map { unsafeBitCast($0, to: SetUser.self) }

  /// A Boolean value that indicates whether this process can become each user, and they may execute the built tool.
  static let areAvailable: Bool = {
    guard geteuid() == 0, setUser != nil, setGroup != nil else { return false }
    // Without setpriv, the process cannot become another user.
    return (try? ChildProcess.run(stranger.wrapper() + [Tool.executable.path, "--help"]).status) == 0
  }()

  /// The reason for skipping tests of several users.
  static let requirement: Comment = "needs root, setpriv, and a build that everybody may read"

  /// Runs calls with the user's permissions for files.
  func act<Result: Sendable>(_ body: @escaping @Sendable () throws -> Result) throws -> Result {
    let box = Lock<Swift.Result<Result, any Error>?>(nil)
    let isDone = DispatchSemaphore(value: 0)
    let thread = Thread {
      _ = Self.setGroup?(group)
      _ = Self.setUser?(id)
      let result = Swift.Result { try body() }
      box.withLock { $0 = result }
      isDone.signal()
    }
    thread.start()
    isDone.wait()
    guard let result = box.withLock({ $0 }) else { throw Tool.Failure(message: "the thread ended without a result") }
    return try result.get()
  }
}
