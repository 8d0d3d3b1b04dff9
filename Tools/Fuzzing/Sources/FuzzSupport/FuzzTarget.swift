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

/// What a fuzz target is: a property that must hold for every input.
public enum FuzzTarget {
  /// Runs libFuzzer on a property until it has made as many runs, or taken as long, as the command line says.
  ///
  /// - Parameter test: traps where the property does not hold; a closure without context, as libFuzzer is C.
  public static func run(_ test: @escaping @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt) -> Never {
    var count = CommandLine.argc
    var arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>? = CommandLine.unsafeArgv
    exit(LLVMFuzzerRunDriver(&count, &arguments, test))
  }
}
