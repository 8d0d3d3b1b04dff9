internal import BlobRecord

/// The build duration and signature of a Turborepo product, which are stored as parameters of the content type.
struct TurboArtifact: Equatable {
  /// The build duration in milliseconds.
  var duration: Int64?
  /// The signature in Base64.
  var tag: String?

  static let durationField = "x-artifact-duration"
  static let tagField = "x-artifact-tag"
  static let allowedFields = "Authorization, Content-Type, User-Agent, \(durationField), \(tagField)"
  static let essence = "application/vnd.turborepo.artifact"
  private static let longestTag = 600

  init() {}

  init(_ fields: HeaderFields) throws(Refusal) {
    if let text = fields[Self.durationField] {
      guard let number = Self.duration(text) else {
        throw Refusal(400, "\(Self.durationField) must be a number of milliseconds")
      }
      duration = number
    }
    if let text = fields[Self.tagField] {
      guard Self.isTag(text) else {
        throw Refusal(400, "\(Self.tagField) must be at most \(Self.longestTag) letters of base64")
      }
      tag = text
    }
  }

  /// Parses a content type that `contentType` returns, and possibly has more parameters.
  ///
  /// - Returns: The artifact, or `nil` for another type, and for values that no request of Turborepo could have stored.
  init?(contentType: String) {
    let parts = contentType.split(separator: ";", omittingEmptySubsequences: false)
    guard parts[0].trimmingBlanks.lowercased() == Self.essence else { return nil }
    for part in parts.dropFirst() {
      let pair = part.split(separator: "=", maxSplits: 1)
      guard pair.count == 2 else { continue }
      switch pair[0].trimmingBlanks {
      case "duration":
        guard let number = Self.duration(String(pair[1])) else { return nil }
        duration = number
      case "tag":
        let text = pair[1].filter { $0 != "\"" }
        guard Self.isTag(text) else { return nil }
        tag = text
      default: break
      }
    }
  }

  private static func duration(_ text: String) -> Int64? { Int64(text).flatMap { $0 >= 0 ? $0 : nil } }

  private static func isTag(_ text: String) -> Bool { text.utf8.count <= longestTag && isBase64(text) }

  var contentType: String {
    let duration = duration.map { "; duration=\($0)" } ?? ""
    let tag = tag.map { "; tag=\"\($0)\"" } ?? ""
    return Self.essence + duration + tag
  }

  private static func isBase64(_ text: String) -> Bool {
    text.utf8.allSatisfy { byte in
      switch byte {
      case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "a")...UInt8(ascii: "z"):
        true
      default: "+/=-_".utf8.contains(byte)
      }
    }
  }
}

extension TurboArtifact {
  static func team(of target: RequestTarget) throws(Refusal) -> String? {
    guard let team = target.parameter("teamId") ?? target.parameter("slug"), !team.isEmpty else { return nil }
    guard let path = try? ToolPath(team[...]), path.names == [team] else {
      throw Refusal(400, "a team has letters and digits, and -, ., _ and ~")
    }
    return team
  }

  static func keyPrefix(of team: String?) -> String {
    BuildTool.turbo.rawValue + "/" + (team.map { $0 + "/" } ?? "")
  }

  static func key(ofHash hash: String, team: String?) throws(Refusal) -> BlobKey {
    guard !hash.isEmpty, hash.utf8.count <= 255, hash.allSatisfy({ $0.isASCII && $0.isHexDigit }) else {
      throw Refusal(400, "a hash has hexadecimal digits")
    }
    return BlobKey(keyPrefix(of: team) + hash)
  }
}
