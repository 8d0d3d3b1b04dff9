internal import RecordVectors
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

/// Writes Spec/vectors: `swift run make-vectors Spec/vectors`.
@main struct MakeVectors {
  static func main() {
    let arguments = CommandLine.arguments.dropFirst()
    guard let directory = arguments.first, arguments.count == 1, !directory.hasPrefix("-") else {
      fail("usage: make-vectors DIRECTORY", status: 64)
    }
    do throws(Errno) {
      try VectorSet.write(to: FilePath(directory))
    } catch {
      fail("make-vectors: \(directory): \(error)", status: 2)
    }
  }

  static func fail(_ message: String, status: CInt) -> Never {
    // If standard error cannot be written to, the exit status still reports the failure.
    _ = try? FileDescriptor.standardError.writeAll((message + "\n").utf8)
    exit(status)
  }
}
