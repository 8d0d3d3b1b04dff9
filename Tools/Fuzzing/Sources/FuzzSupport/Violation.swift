#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#elseif canImport(Android)
  internal import Android
#endif

/// Ends the process if a property does not hold.
///
/// Unlike `precondition`, it prints the property in optimized builds too.
public func require(
  _ condition: Bool, _ property: @autoclosure () -> String = "a property", file: StaticString = #fileID,
  line: UInt = #line
) {
  if !condition { violated(property(), file: file, line: line) }
}

public func violated(_ property: String, file: StaticString = #fileID, line: UInt = #line) -> Never {
  let message = Array("violated: \(file):\(line): \(property)\n".utf8)
  // A failed write is ignored, because the process aborts anyway.
  _ = message.withUnsafeBytes { write(STDERR_FILENO, $0.baseAddress, $0.count) }
  abort()
}
