#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#elseif canImport(Darwin)
  import Darwin
#endif

/// Runs a program to its end. `Foundation.Process` costs more than the programs run here do.
enum ChildProcess {
  struct CannotStart: Error {
    let program: String
    let errno: Int32
  }

  /// - Returns: the exit status as shells count it: 128 and more for a signal.
  static func run(_ arguments: [String]) throws -> Int32 {
    #if canImport(Darwin)
      // Nothing is run there: the tool that would be run needs Linux.
      throw CannotStart(program: arguments[0], errno: ENOTSUP)
    #else
      return try spawn(arguments)
    #endif
  }

  #if !canImport(Darwin)
    private static func spawn(_ arguments: [String]) throws -> Int32 {
      var pointers: [UnsafeMutablePointer<CChar>?] = arguments.map { strdup($0) }
      defer { for pointer in pointers { free(pointer) } }
      pointers.append(nil)
      // Many thousands of them: what a build for coverage would write for each takes longer than it runs.
      var environment: [UnsafeMutablePointer<CChar>?] = [strdup("LLVM_PROFILE_FILE=/dev/null")]
      defer { free(environment[0]) }
      for index in 0... {
        guard let variable = environ[index] else { break }
        if strncmp(variable, "LLVM_PROFILE_FILE=", 18) != 0 { environment.append(variable) }
      }
      environment.append(nil)
      var child: pid_t = 0
      let error = posix_spawnp(&child, arguments[0], nil, nil, pointers, environment)
      guard error == 0 else { throw CannotStart(program: arguments[0], errno: error) }
      var status: Int32 = 0
      while waitpid(child, &status, 0) == -1, errno == EINTR {}
      let signal = status & 0x7F
      return signal == 0 ? (status >> 8) & 0xFF : 128 + signal
    }
  #endif
}
