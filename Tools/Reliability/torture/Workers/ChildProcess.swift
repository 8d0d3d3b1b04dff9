internal import Foundation

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#elseif canImport(Android)
  internal import Android
#endif

/// A child process that runs this program.
///
/// Foundation's `Process` is not used, because the coordinator must detect deaths exactly and by its own calls.
final class ChildProcess {
  private let id: pid_t
  private(set) var exitStatus: CInt?
  private(set) var isStopped = false

  init(arguments: [String]) throws {
    guard let program = Bundle.main.executablePath else { throw TortureFailure("no path of this program") }
    var pointers = ([program] + arguments).map { strdup($0) } + [nil]
    defer { for pointer in pointers { free(pointer) } }
    var id: pid_t = 0
    let error = posix_spawn(&id, program, nil, nil, &pointers, environ)
    guard error == 0 else { throw TortureFailure("posix_spawn of \(program): errno \(error)") }
    self.id = id
  }

  deinit {
    guard exitStatus == nil else { return }
    kill()
  }

  /// Returns whether the process has ended.
  func poll() -> Bool {
    if exitStatus != nil { return true }
    var status: CInt = 0
    guard waitpid(id, &status, WNOHANG) == id else { return false }
    exitStatus = status
    return true
  }

  /// Kills the process and waits for its end.
  func kill() {
    guard exitStatus == nil else { return }
    _ = platformKill(id, SIGKILL)
    var status: CInt = 0
    while waitpid(id, &status, 0) == -1, errno == EINTR {}
    exitStatus = status
  }

  func stop() {
    guard exitStatus == nil else { return }
    isStopped = platformKill(id, SIGSTOP) == 0
  }

  func resume() {
    guard exitStatus == nil, isStopped else { return }
    isStopped = false
    _ = platformKill(id, SIGCONT)
  }
}

private func platformKill(_ id: pid_t, _ signal: CInt) -> CInt {
  kill(id, signal)
}
