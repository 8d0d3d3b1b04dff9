internal import ArgumentParser
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

/// Becomes the program `blobcache-serve`, which lies beside this one: a server is ten times as large as all other
/// subcommands, and each of them would pay for it at its start.
struct ServeCommand: Subcommand {
  static let configuration = CommandConfiguration(
    commandName: "serve", abstract: "Serve a directory over HTTP, by the program blobcache-serve.",
    usage: "blobcache serve <dir> [<options>]",
    discussion: """
      The program is built by itself: swift build -c release --traits Server --product blobcache-serve. It lies beside \
      blobcache, or on the PATH, and gets all arguments: blobcache-serve --help lists them.
      """)

  static let examples = [
    Example("Serve a directory on this machine", "blobcache serve cache"),
    Example("Serve it at a port that is free", "blobcache serve cache --listen 127.0.0.1:0"),
  ]

  private static let program = "blobcache-serve"

  @Argument(
    parsing: .allUnrecognized,
    help: ArgumentHelp("The cache's directory, and options of blobcache-serve.", valueName: "dir"))
  var arguments: [String]

  func answer(_ output: inout Output) throws -> Answer {
    let beside = Self.ownPath.removingLastComponent().appending(Self.program)
    var errno = Self.execute(beside.string, arguments)
    if errno == .noSuchFileOrDirectory { errno = Self.execute(Self.program, arguments) }
    throw CommandFailure(
      "serve: \(beside): \(errno); build it by: swift build -c release --traits Server --product \(Self.program)")
  }

  /// The program's own path; the name it was called by where the system does not tell.
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
