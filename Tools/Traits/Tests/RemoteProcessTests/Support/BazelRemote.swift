import Foundation
import Synchronization

/// A server with the HTTP interface of bazel-remote: GET, HEAD and PUT of objects at `/ac/` and `/cas/` whose names
/// are SHA-256. It does not verify the contents under `/cas/`.
///
/// Source: https://github.com/buchgr/bazel-remote/blob/master/server/http.go
final class BazelRemote: Sendable {
  private final class Content: Sendable {
    let objects = Mutex<[String: [UInt8]]>([:])
  }

  private let listener: Listener
  private let content = Content()

  var port: Int { listener.port }
  var names: [String] { content.objects.withLock { $0.keys.sorted() } }

  /// - Parameter looksIntoResults: A Boolean value that indicates whether PUTs under `/ac/` fail, as records do
  ///   without `--disable_http_ac_validation`.
  init(looksIntoResults: Bool = false) throws {
    listener = try Listener { [content] connection in
      defer { connection.close() }
      var bytes: [UInt8] = []
      while bytes.firstRange(of: Array("\r\n\r\n".utf8)) == nil {
        let more = connection.read()
        guard !more.isEmpty else { return }
        bytes += more
      }
      guard let end = bytes.firstRange(of: Array("\r\n\r\n".utf8)) else { return }
      let lines = String(decoding: bytes[..<end.lowerBound], as: UTF8.self).split(separator: "\r\n")
      let words = lines[0].split(separator: " ")
      let length = lines.first { $0.lowercased().hasPrefix("content-length: ") }.flatMap { Int($0.dropFirst(16)) }
      var body = Array(bytes[end.upperBound...])
      while body.count < length ?? 0 {
        let more = connection.read()
        guard !more.isEmpty else { return }
        body += more
      }
      let answer = content.objects.withLock {
        Self.answer(String(words[0]), String(words[1]), length.map { _ in body }, looksIntoResults, &$0)
      }
      connection.write(
        "HTTP/1.1 \(answer.status)\r\nContent-Length: \(answer.body.count)\r\nConnection: close\r\n\(answer.fields)\r\n"
          .utf8)
      if words[0] != "HEAD" { connection.write(answer.body) }
    }
  }

  private static func answer(
    _ method: String, _ path: String, _ body: [UInt8]?, _ looksIntoResults: Bool, _ objects: inout [String: [UInt8]]
  ) -> (status: String, fields: String, body: [UInt8]) {
    func text(_ status: String, _ text: String) -> (status: String, fields: String, body: [UInt8]) {
      (status, "Content-Type: text/plain; charset=utf-8\r\n", Array((text + "\n").utf8))
    }
    guard let name = path.wholeMatch(of: /\/(.*\/)?((ac|cas)\/[a-f0-9]{64})/)?.output.2 else {
      return text("400 Bad Request", "resource name must be a SHA256 hash in hex. got '\(path)'")
    }
    switch method {
    case "GET", "HEAD":
      guard let bytes = objects[String(name)] else { return text("404 Not Found", "Not found") }
      return ("200 OK", "Content-Type: application/octet-stream\r\n", bytes)
    case "PUT":
      guard let body else { return text("400 Bad Request", "PUT without Content-Length") }
      guard !looksIntoResults || name.hasPrefix("cas/") else {
        return text("400 Bad Request", "proto: cannot parse invalid wire-format data")
      }
      objects[String(name)] = body
      return ("200 OK", "", [])
    default: return text("405 Method Not Allowed", "Method '\(method)' not supported.")
    }
  }
}
