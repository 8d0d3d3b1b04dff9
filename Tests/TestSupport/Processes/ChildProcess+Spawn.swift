internal import Foundation

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
      return Spawn.status(of: status)
    #endif
  }
}

/// The descriptors of a program to run.
struct Spawn: ~Copyable {
  #if canImport(Darwin)
    private var actions: posix_spawn_file_actions_t?
    private var attributes: posix_spawnattr_t?
  #else
    private var actions = posix_spawn_file_actions_t()
    private var attributes = posix_spawnattr_t()
  #endif
  /// Handles that stay open until the program runs.
  private var handles: [FileHandle] = []
  /// The ends of pipes that belong to the program alone.
  private var ends: [FileHandle] = []

  init() {
    posix_spawn_file_actions_init(&actions)
    posix_spawnattr_init(&attributes)
  }

  deinit {
    var (actions, attributes) = (actions, attributes)
    posix_spawn_file_actions_destroy(&actions)
    posix_spawnattr_destroy(&attributes)
  }

  /// Returns the exit status of a status word, or 128 and the number of a signal.
  static func status(of word: Int32) -> Int32 {
    let signal = word & 0x7F
    return signal == 0 ? (word >> 8) & 0xFF : 128 + signal
  }

  /// - Parameter target: A `FileHandle` or a `Pipe`.
  mutating func open(_ descriptor: Int32, _ target: Any) {
    let handle: FileHandle
    switch target {
    case let pipe as Pipe:
      handle = descriptor == 0 ? pipe.fileHandleForReading : pipe.fileHandleForWriting
      ends.append(handle)
    case let file as FileHandle where file !== FileHandle.nullDevice: handle = file
    default:
      posix_spawn_file_actions_addopen(&actions, descriptor, "/dev/null", O_RDWR, 0)
      return
    }
    handles.append(handle)
    posix_spawn_file_actions_adddup2(&actions, handle.fileDescriptor, descriptor)
  }

  /// Starts the program without the other open files of this process, and without its dispositions of signals.
  mutating func run(
    _ program: String, _ command: [String], environment: [String], in directory: String?
  ) throws -> pid_t {
    if let directory { try changeDirectory(to: directory) }
    var flags = Int16(POSIX_SPAWN_SETSIGDEF) | Int16(POSIX_SPAWN_SETSIGMASK)
    #if canImport(Darwin)
      flags |= Int16(POSIX_SPAWN_CLOEXEC_DEFAULT)
    #elseif canImport(Glibc)
      try closeFiles(from: 3)
    #endif
    var signals = sigset_t()
    sigfillset(&signals)
    posix_spawnattr_setsigdefault(&attributes, &signals)
    sigemptyset(&signals)
    posix_spawnattr_setsigmask(&attributes, &signals)
    posix_spawnattr_setflags(&attributes, flags)
    var (arguments, variables) = (command.map { strdup($0) }, environment.map { strdup($0) })
    defer { for pointer in arguments + variables { free(pointer) } }
    arguments.append(nil)
    variables.append(nil)
    var child: pid_t = 0
    let error = posix_spawn(&child, program, &actions, &attributes, arguments, variables)
    guard error == 0 else { throw ChildProcess.CannotStart(program: program, errno: error) }
    for end in ends { try end.close() }
    handles = []
    return child
  }

  #if canImport(Darwin)
    private mutating func changeDirectory(to directory: String) throws {
      posix_spawn_file_actions_addchdir_np(&actions, directory)
    }
  #else
    // The declarations of these functions are not imported.
    private typealias Actions = UnsafeMutablePointer<posix_spawn_file_actions_t>

    private mutating func changeDirectory(to directory: String) throws {
      typealias Function = @convention(c) (Actions, UnsafePointer<CChar>) -> CInt
      let add = unsafeBitCast(try Self.function("posix_spawn_file_actions_addchdir_np"), to: Function.self)
      _ = add(&actions, directory)
    }

    private mutating func closeFiles(from first: CInt) throws {
      typealias Function = @convention(c) (Actions, CInt) -> CInt
      let add = unsafeBitCast(try Self.function("posix_spawn_file_actions_addclosefrom_np"), to: Function.self)
      _ = add(&actions, first)
    }

    private static func function(_ name: String) throws -> UnsafeMutableRawPointer {
      guard let function = dlsym(nil, name) else { throw ChildProcess.CannotStart(program: name, errno: ENOSYS) }
      return function
    }
  #endif
}
