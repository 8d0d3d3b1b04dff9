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

package enum Terminal {
  package static func isTerminal(_ descriptor: FileDescriptor) -> Bool {
    isatty(descriptor.rawValue) == 1
  }

  /// Returns the current width of the terminal in characters, or `nil` if the width is unknown.
  package static func width(of descriptor: FileDescriptor) -> Int? {
    let columns = blob_terminal_width(descriptor.rawValue)
    return columns > 0 ? Int(columns) : nil
  }
}
