internal import ArgumentParser
internal import BlobRecord
internal import Posix
internal import SystemPackage
internal import TextFormats

#if canImport(FoundationEssentials)
  internal import FoundationEssentials
#else
  internal import Foundation
#endif

/// Extended data on the command line: text, or `@FILE` for a file's content.
struct ExtendedDataArgument: ExpressibleByArgument {
  private let text: String

  init?(argument: String) { text = argument }

  /// - Throws: `CommandFailure` if the file cannot be read. The operation itself rejects oversized data.
  func data() throws -> Data {
    guard text.first == "@" else { return Data(text.utf8) }
    let path = FilePath(String(text.dropFirst()))
    do {
      let file = try FileDescriptor.open(path, .readOnly)
      // Errors of the read are reported. The close of a file that was only read can be ignored.
      defer { try? file.close() }
      // Reads one byte more than the limit, so that oversized data is refused and not truncated.
      var bytes = [UInt8](repeating: 0, count: RecordExtension.maximumDataByteCount + 1)
      var count = 0
      while count < bytes.count {
        let read = try bytes.withUnsafeMutableBytes {
          try file.read(into: UnsafeMutableRawBufferPointer(rebasing: $0[count...]))
        }
        if read == 0 { break }
        count += read
      }
      return Data(bytes[..<count])
    } catch let error as Errno {
      throw CommandFailure("extended data: open(2) or read(2): \(error): \(path)")
    }
  }
}

extension Data {
  /// The bytes as text, or `nil` if they are not valid UTF-8.
  var validText: String? { String(validating: self, as: UTF8.self) }

  /// The beginning of the data, for a line on a terminal.
  var preview: String {
    guard let text = validText else { return "\(count) bytes" }
    return (text.count > 60 ? text.prefix(60) + "…" : text[...]).description.printable
  }
}

extension JSONObject {
  /// Adds extended data as text if it is valid UTF-8, otherwise in Base64.
  mutating func add(extendedData data: Data?) {
    guard let data else { return }
    if let text = data.validText {
      add("extendedData", text)
    } else {
      add("extendedDataBase64", data.base64EncodedString())
    }
  }
}
