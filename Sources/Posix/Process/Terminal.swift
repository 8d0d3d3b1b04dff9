internal import CPosix
package import SystemPackage

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#elseif canImport(Android)
  internal import Android
#endif

/// The facts of the terminal behind a descriptor.
package enum Terminal {
  package static func isTerminal(_ descriptor: FileDescriptor) -> Bool {
    isatty(descriptor.rawValue) == 1
  }

  /// How many characters a line of the terminal holds now: a window's size changes.
  ///
  /// - Returns: nil if it is no terminal, or one that does not know.
  package static func width(of descriptor: FileDescriptor) -> Int? {
    let columns = blob_terminal_width(descriptor.rawValue)
    return columns > 0 ? Int(columns) : nil
  }
}
