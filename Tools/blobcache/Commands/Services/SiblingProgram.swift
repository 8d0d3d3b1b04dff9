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

/// A program that lies beside this one or on the PATH.
///
/// What speaks over networks is ten times as large as all subcommands, and each of them would pay for it at its start.
package struct SiblingProgram: Sendable {
  let name: String
  /// The trait that it cannot do without.
  let trait: String
  /// What it is built with.
  let traits: String

  package static let server = SiblingProgram(name: "blobcache-serve", trait: "Server", traits: "Server")
  package static let remote = SiblingProgram(name: "blobcache-remote", trait: "Remote", traits: "Tool,Remote")

  private var build: String { "build it by: swift build -c release --traits \(traits) --product \(name)" }

  /// Ends the program itself where it was built without its trait, and says how to come by one that was not.
  package func refuse() -> Never {
    ProcessSetup.prepare()
    StandardError.report("this \(name) was built without the trait \(trait); \(build)")
    exit(2)
  }

  /// Becomes the program.
  ///
  /// - Parameters:
  ///   - arguments: what it gets.
  ///   - subcommand: for the message.
  /// - Throws: `CommandFailure`, and returns in no other way.
  func become(with arguments: [String], for subcommand: String) throws -> Never {
    let beside = Self.ownPath.removingLastComponent().appending(name)
    var errno = Self.execute(beside.string, arguments)
    if errno == .noSuchFileOrDirectory { errno = Self.execute(name, arguments) }
    throw CommandFailure("\(subcommand): \(beside): \(errno); \(build)")
  }

  /// This program's own path; the name it was called by where the system does not tell.
  private static var ownPath: FilePath {
    let name = FilePath(CommandLine.arguments.first ?? "blobcache")
    guard let path = realpath("/proc/self/exe", nil) ?? realpath(name.string, nil) else { return name }
    defer { free(path) }
    return FilePath(platformString: path)
  }

  /// Becomes another program, which is looked for on the PATH if its name has no slash.
  ///
  /// - Returns: why that did not succeed.
  private static func execute(_ program: String, _ arguments: [String]) -> Errno {
    // What this program ignores, the other is not to inherit: it decides for itself.
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
