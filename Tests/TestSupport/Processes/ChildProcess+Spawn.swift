#if canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#elseif canImport(Android)
  internal import Android
#elseif canImport(Darwin)
  internal import Darwin
#endif

extension ChildProcess {
  public struct CannotStart: Error {
    public let program: String
    public let errno: Int32
  }

  /// Runs a program to its end with this process's files and environment, for tests that run thousands.
  ///
  /// It costs less than Foundation's `Process`.
  ///
  /// - Returns: The exit status, or 128 and the number of the signal that ended the program.
  public static func spawn(_ command: [String]) throws -> Int32 {
    #if canImport(Darwin)
      // The function is not used on Darwin, because the spawned program requires Linux.
      throw CannotStart(program: command[0], errno: ENOTSUP)
    #else
      var pointers: [UnsafeMutablePointer<CChar>?] = command.map { strdup($0) }
      defer { for pointer in pointers { free(pointer) } }
      pointers.append(nil)
      var environment: [UnsafeMutablePointer<CChar>?] = [strdup("LLVM_PROFILE_FILE=/dev/null")]
      defer { free(environment[0]) }
      for index in 0... {
        guard let variable = environ[index] else { break }
        if strncmp(variable, "LLVM_PROFILE_FILE=", 18) != 0 { environment.append(variable) }
      }
      environment.append(nil)
      var child: pid_t = 0
      let error = posix_spawnp(&child, command[0], nil, nil, pointers, environment)
      guard error == 0 else { throw CannotStart(program: command[0], errno: error) }
      var status: Int32 = 0
      while waitpid(child, &status, 0) == -1, errno == EINTR {}
      let signal = status & 0x7F
      return signal == 0 ? (status >> 8) & 0xFF : 128 + signal
    #endif
  }
}
