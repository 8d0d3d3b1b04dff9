internal import Posix
internal import SystemPackage
package import TextFormats

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#elseif canImport(Android)
  internal import Android
#endif

/// Standard output for lines and payloads.
///
/// Payloads are not copied. Lines are buffered unless standard output is a terminal. A failed write ends the process
/// because the results cannot be delivered. A reader that has closed the pipe is not a failure.
package struct Output: ~Copyable {
  /// The style, which indicates whether text may be coloured.
  let style: Style
  let isTerminal: Bool
  private var buffer: [UInt8] = []

  private static let flushThreshold = 64 << 10

  package init() {
    isTerminal = isatty(STDOUT_FILENO) == 1
    style = Style(isColoured: isTerminal && Style.environmentAllowsColour)
  }

  package mutating func line(_ text: String) {
    buffer.append(contentsOf: text.utf8)
    buffer.append(UInt8(ascii: "\n"))
    if isTerminal || buffer.count >= Self.flushThreshold { flush() }
  }

  package mutating func line(_ object: JSONObject) {
    line(object.text)
  }

  package mutating func flush() {
    // Standard output and standard error may be the same terminal.
    if isTerminal { StandardError.clearStatus() }
    Self.write(buffer.span.bytes)
    buffer.removeAll(keepingCapacity: true)
  }

  /// Writes bytes after the buffered output without copying them.
  package mutating func write(_ bytes: RawSpan) {
    flush()
    Self.write(bytes)
  }

  private static func write(_ bytes: RawSpan) {
    bytes.withUnsafeBytes { buffer in
      var rest = buffer[...]
      while !rest.isEmpty {
        do {
          let count = try FileDescriptor.standardOutput.write(UnsafeRawBufferPointer(rebasing: rest))
          rest = rest.dropFirst(count)
        } catch Errno.wouldBlock, Errno.resourceTemporarilyUnavailable {
          do throws(FileError) {
            try Readiness.toWrite.wait(for: .standardOutput, Location("standard output"), files: Files())
          } catch {
            fail("poll(2)", error.errno)
          }
        } catch Errno.brokenPipe {
          exit(Answer.done.rawValue)
        } catch {
          fail("write(2)", error)
        }
      }
    }
  }

  private static func fail(_ systemCall: String, _ error: any Error) -> Never {
    StandardError.report("\(systemCall): \(error): standard output")
    exit(Answer.failed.rawValue)
  }
}
