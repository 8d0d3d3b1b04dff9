internal import CLibFuzzer

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#elseif canImport(Android)
  internal import Android
#endif

/// A fuzz target checks a property that must hold for every input.
public enum FuzzTarget {
  /// Runs libFuzzer on a property within the limits on the command line.
  ///
  /// - Parameter test: A function that traps if the property does not hold. It has no context, as libFuzzer is C.
  public static func run(_ test: @escaping @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt) -> Never {
    var count = CommandLine.argc
    var arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>? = CommandLine.unsafeArgv
    exit(LLVMFuzzerRunDriver(&count, &arguments, test))
  }
}
