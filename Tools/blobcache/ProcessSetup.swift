internal import ArgumentParser

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#elseif canImport(Android)
  internal import Android
#endif

/// The state of the process that must be right before anything else happens.
package enum ProcessSetup {
  package static func prepare() {
    ignoreSignals()
    occupyStandardDescriptors()
    refuseArgumentsThatAreNotUTF8()
  }

  /// A reader that goes away and a file size limit are errors of a write, not reasons to die in the middle.
  static func ignoreSignals() {
    signal(SIGPIPE, SIG_IGN)
    signal(SIGXFSZ, SIG_IGN)
  }

  /// Opens a file that always fails in place of each closed standard descriptor.
  ///
  /// The next opened file would get the descriptor, and then results would be written into a record. The file in its
  /// place fails every read or write, as a closed one does.
  private static func occupyStandardDescriptors() {
    for descriptor in STDIN_FILENO...STDERR_FILENO where fcntl(descriptor, F_GETFD) == -1 {
      _ = open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY)
    }
  }

  /// Swift repairs such arguments, and the repaired key would be another one.
  private static func refuseArgumentsThatAreNotUTF8() {
    for index in 1..<max(1, Int(CommandLine.argc)) {
      guard let argument = CommandLine.unsafeArgv[index], String(validatingCString: argument) == nil else { continue }
      BlobCacheTool.exit(withError: ValidationError("Argument \(index) is not UTF-8."))
    }
  }
}
