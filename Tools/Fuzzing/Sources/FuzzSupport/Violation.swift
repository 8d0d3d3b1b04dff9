#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#elseif canImport(Android)
  internal import Android
#endif

/// Ends the process where a property does not hold. Unlike `precondition`, it says which in an optimized build too.
public func require(
  _ condition: Bool, _ property: @autoclosure () -> String = "a property", file: StaticString = #fileID,
  line: UInt = #line
) {
  if !condition { violated(property(), file: file, line: line) }
}

public func violated(_ property: String, file: StaticString = #fileID, line: UInt = #line) -> Never {
  let message = Array("violated: \(file):\(line): \(property)\n".utf8)
  // Nothing to do about a failure: the process ends all the same.
  _ = message.withUnsafeBytes { write(STDERR_FILENO, $0.baseAddress, $0.count) }
  abort()
}
