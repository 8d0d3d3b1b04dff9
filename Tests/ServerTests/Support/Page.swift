import BlobCache
import BlobCacheServer
import BlobRecord
import Foundation
import SystemPackage
import Testing

/// A page of the viewer, as a browser without scripts sees it.
struct Page {
  let answer: Answer

  var status: Int { answer.status }
  var text: String { answer.text }

  /// The addresses of links, with decoded character references.
  var links: [String] { values(of: /href="([^"]*)"/) }

  func links(to start: String) -> [String] { links.filter { $0.hasPrefix(start) } }

  /// The token of its forms.
  var token: String? { values(of: /name="token" value="([^"]*)"/).first }

  /// The address of the table's next page.
  var next: String? { values(of: /rel="next" href="([^"]*)"/).first }

  private func values(of expression: Regex<(Substring, Substring)>) -> [String] {
    text.matches(of: expression).map { Self.plain(String($0.1)) }
  }

  private static func plain(_ text: String) -> String {
    [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")]
      .reduce(text) { $0.replacing($1.0, with: $1.1) }
  }
}

extension TestServer {
  func page(_ address: String) async throws -> Page { Page(answer: try await send("GET", "/ui/" + address)) }

  /// Submits a form like a page of the viewer.
  ///
  /// - Parameter token: The token, or `nil` to use the token of a page.
  func form(_ action: String, _ fields: [(String, String)], token: String? = nil) async throws -> Page {
    var known = token
    if known == nil { known = try await page("collections").token }
    let all = fields + [("token", known ?? "")]
    let text = all.map { "\($0.0)=\(Self.escaped($0.1))" }.joined(separator: "&")
    let answer = try await send(
      "POST", "/ui/" + action, ["Content-Type": "application/x-www-form-urlencoded"], .bytes(Data(text.utf8)))
    return Page(answer: answer)
  }

  static func escaped(_ text: String) -> String {
    text.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
  }

  /// Overwrites bytes of a record's file.
  func overwrite(_ key: String, at offset: Int, with bytes: [UInt8]) throws {
    let file = try FileHandle(forUpdating: URL(filePath: try cache.filePath(for: BlobKey(key)).string))
    try file.seek(toOffset: UInt64(offset))
    try file.write(contentsOf: bytes)
    try file.close()
  }
}
