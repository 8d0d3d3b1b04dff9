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

/// The users that share a machine in tests of permissions. Their numbers need no entry in a password file.
///
/// Their programs are processes of their own (`SharedRoot.run`); their other calls are made by a thread that has their
/// rights over files and no others (`act`).
enum CacheUser: String, CaseIterable, CustomTestStringConvertible {
  case superuser
  /// To whom the root belongs.
  case owner
  /// In the root's group.
  case member
  case stranger

  /// Of owner and member.
  static let sharedGroup: UInt32 = 41_100

  var id: UInt32 {
    switch self {
    case .superuser: 0
    case .owner: 41_001
    case .member: 41_002
    case .stranger: 41_003
    }
  }

  /// The group of the user's new files, where the directory does not set another.
  var group: UInt32 {
    switch self {
    case .superuser: 0
    case .owner, .member: Self.sharedGroup
    case .stranger: id
    }
  }

  var testDescription: String { rawValue }

  /// A program and its arguments to run another one by.
  ///
  /// - Parameter ownGroup: whether the user's first group is one of the user's own, and the shared one comes after it.
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

  /// setfsuid(2) and setfsgid(2), which Swift's C library module does not show; nil where there are none.
  private static let setUser: SetUser? = dlsym(nil, "setfsuid").map { unsafeBitCast($0, to: SetUser.self) }
  private static let setGroup: SetUser? = dlsym(nil, "setfsgid").map { unsafeBitCast($0, to: SetUser.self) }

  /// Whether this process may become each of them, and they may run what was built.
  static let areAvailable: Bool = {
    guard geteuid() == 0, setUser != nil, setGroup != nil else { return false }
    // Without setpriv, the process cannot become another user.
    return (try? ChildProcess.run(stranger.wrapper() + [Tool.executable.path, "--help"]).status) == 0
  }()

  /// Why tests of several users are skipped.
  static let requirement: Comment = "needs root, setpriv, and a build that everybody may read"

  /// Makes calls with the user's rights over files.
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
