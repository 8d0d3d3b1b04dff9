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

/// The state of the process that must be set up before any other work.
package enum ProcessSetup {
  package static func prepare() {
    ignoreSignals()
    occupyStandardDescriptors()
    refuseArgumentsThatAreNotUTF8()
  }

  /// Ignores the signals for a closed pipe and for the file size limit, so that they become errors of a write.
  static func ignoreSignals() {
    signal(SIGPIPE, SIG_IGN)
    signal(SIGXFSZ, SIG_IGN)
  }

  /// Opens a file that always fails in place of each closed standard descriptor.
  ///
  /// Otherwise the next opened file would get the descriptor, and results would be written into a record. Every read
  /// or write of the placeholder fails, as with a closed descriptor.
  private static func occupyStandardDescriptors() {
    for descriptor in STDIN_FILENO...STDERR_FILENO where fcntl(descriptor, F_GETFD) == -1 {
      _ = open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY)
    }
  }

  /// Rejects arguments that Swift would repair, because a repaired key is a different key.
  private static func refuseArgumentsThatAreNotUTF8() {
    for index in 1..<max(1, Int(CommandLine.argc)) {
      guard let argument = CommandLine.unsafeArgv[index], String(validatingCString: argument) == nil else { continue }
      BlobCacheTool.exit(withError: ValidationError("Argument \(index) is not UTF-8."))
    }
  }
}
