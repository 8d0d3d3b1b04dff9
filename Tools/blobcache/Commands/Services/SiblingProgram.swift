internal import SystemPackage

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#elseif canImport(Android)
  internal import Android
#endif

/// A program that is installed next to this one or on the PATH.
///
/// The network code is ten times as large as all subcommands and would slow down the start of each of them.
package struct SiblingProgram: Sendable {
  let name: String
  /// The trait that the program requires.
  let trait: String
  /// The traits in the build command.
  let traits: String

  package static let server = SiblingProgram(name: "blobcache-serve", trait: "Server", traits: "Server")
  package static let remote = SiblingProgram(name: "blobcache-remote", trait: "Remote", traits: "Tool,Remote")

  private var build: String { "build it by: swift build -c release --traits \(traits) --product \(name)" }

  /// Exits with 2 because the program was built without its trait, and reports how to build it.
  package func refuse() -> Never {
    ProcessSetup.prepare()
    StandardError.report("this \(name) was built without the trait \(trait); \(build)")
    exit(2)
  }

  /// Replaces the process with the program.
  ///
  /// - Parameters:
  ///   - arguments: The arguments of the program.
  ///   - subcommand: The name of the subcommand for the error message.
  /// - Throws: `CommandFailure` if the program cannot be executed. The method does not return.
  func become(with arguments: [String], for subcommand: String) throws -> Never {
    let beside = Self.ownPath.removingLastComponent().appending(name)
    var errno = Self.execute(beside.string, arguments)
    if errno == .noSuchFileOrDirectory { errno = Self.execute(name, arguments) }
    throw CommandFailure("\(subcommand): \(beside): \(errno); \(build)")
  }

  /// The path of this program, or the name it was invoked with if the system does not provide the path.
  private static var ownPath: FilePath {
    let name = FilePath(CommandLine.arguments.first ?? "blobcache")
    guard let path = realpath("/proc/self/exe", nil) ?? realpath(name.string, nil) else { return name }
    defer { free(path) }
    return FilePath(platformString: path)
  }

  /// Executes another program, which is searched on the PATH if its name contains no slash.
  ///
  /// - Returns: The error, because the function returns only on failure.
  private static func execute(_ program: String, _ arguments: [String]) -> Errno {
    // The other program must not inherit the ignored signals. It sets up its own.
    signal(SIGPIPE, SIG_DFL)
    signal(SIGXFSZ, SIG_DFL)
    var pointers = ([program] + arguments).map { strdup($0) } + [nil]
    execvp(program, &pointers)
    let failure = Errno(rawValue: errno)
    ProcessSetup.ignoreSignals()
    for pointer in pointers { free(pointer) }
    return failure
  }
}
