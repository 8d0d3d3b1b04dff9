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

  /// - Throws: `CommandFailure` for a file that cannot be read, or holds more than a record takes.
  func data() throws -> Data {
    guard text.first == "@" else { return Data(text.utf8) }
    let path = FilePath(String(text.dropFirst()))
    do {
      let file = try FileDescriptor.open(path, .readOnly)
      // It was read, or its error is reported.
      defer { try? file.close() }
      // A byte more than may be, so that too many are refused and not cut.
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
  /// The text that these bytes are; nil if they are none.
  var validText: String? { String(validating: self, as: UTF8.self) }

  /// The beginning, for a line on a terminal.
  var preview: String {
    guard let text = validText else { return "\(count) bytes" }
    return (text.count > 60 ? text.prefix(60) + "…" : text[...]).description.printable
  }
}

extension JSONObject {
  /// Extended data: as text where they are that, else in base 64.
  mutating func add(extendedData data: Data?) {
    guard let data else { return }
    if let text = data.validText {
      add("extendedData", text)
    } else {
      add("extendedDataBase64", data.base64EncodedString())
    }
  }
}
