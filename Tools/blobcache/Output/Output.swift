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

/// Standard output: lines, and payloads, which are written from where they lie.
///
/// Lines are collected into large writes unless a person is watching. A failing write ends the process, because the
/// results have no reader any more. A reader that has gone away is not a failure.
package struct Output: ~Copyable {
  /// Whether text may be coloured.
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
    // Both may be the same terminal.
    if isTerminal { StandardError.clearStatus() }
    Self.write(buffer.span.bytes)
    buffer.removeAll(keepingCapacity: true)
  }

  /// Writes bytes after what was written before, without a copy of them.
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
