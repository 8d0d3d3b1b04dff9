import Foundation
import Synchronization

/// An HTTP server whose responses a test determines.
final class ScriptedServer: Sendable {
  private let listener: Listener
  private let heads: HeadLog

  private final class HeadLog: Sendable {
    let heads = Mutex<[String]>([])
  }

  /// - Parameters:
  ///   - isEarly: A Boolean value that indicates whether the server responds without reading the request's body.
  ///   - answer: Returns the response for the head of a request, or `nil` for no response.
  init(isEarly: Bool = false, _ answer: @escaping @Sendable (String) -> String?) throws {
    let log = HeadLog()
    heads = log
    listener = try Listener { connection in
      var bytes: [UInt8] = []
      while let head = Self.head(connection, &bytes) {
        let length = head.split(separator: "\r\n").first { $0.lowercased().hasPrefix("content-length:") }
        var rest = length.flatMap { Int($0.dropFirst(15).trimmingCharacters(in: .whitespaces)) } ?? 0
        while !isEarly, rest > 0 {
          if bytes.isEmpty { bytes = connection.read() }
          guard !bytes.isEmpty else { return }
          let taken = min(rest, bytes.count)
          bytes.removeFirst(taken)
          rest -= taken
        }
        log.heads.withLock { $0.append(head) }
        guard let text = answer(head) else { return }
        connection.write(text.utf8)
        if isEarly { return }
      }
      connection.close()
    }
  }

  private static func head(_ connection: Connection, _ bytes: inout [UInt8]) -> String? {
    let end = Array("\r\n\r\n".utf8)
    while true {
      if let range = bytes.firstRange(of: end) {
        defer { bytes.removeFirst(range.upperBound) }
        return String(decoding: bytes[..<range.upperBound], as: UTF8.self)
      }
      let more = connection.read()
      guard !more.isEmpty else { return nil }
      bytes += more
    }
  }

  var port: Int { listener.port }

  /// The heads of all requests, in the order in which the requests ended.
  var requests: [String] { heads.heads.withLock { $0 } }

  static func answer(_ status: String, _ body: String = "", fields: String = "") -> String {
    "HTTP/1.1 \(status)\r\n\(fields)Content-Length: \(body.utf8.count)\r\n\r\n\(body)"
  }
}
