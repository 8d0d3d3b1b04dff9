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
  private static let essence = "application/vnd.turborepo.artifact"
  private static let longestTag = 600

  init(_ fields: HeaderFields) throws(Refusal) {
    if let text = fields[Self.durationField] {
      guard let number = Int64(text), number >= 0 else {
        throw Refusal(400, "\(Self.durationField) must be a number of milliseconds")
      }
      duration = number
    }
    if let text = fields[Self.tagField] {
      guard text.utf8.count <= Self.longestTag, Self.isBase64(text) else {
        throw Refusal(400, "\(Self.tagField) must be at most \(Self.longestTag) letters of base64")
      }
      tag = text
    }
  }

  init(contentType: String) {
    for part in contentType.split(separator: ";").dropFirst() {
      let pair = part.split(separator: "=", maxSplits: 1)
      guard pair.count == 2 else { continue }
      switch pair[0].trimmingBlanks {
      case "duration": duration = Int64(pair[1])
      case "tag": tag = String(pair[1].filter { $0 != "\"" })
      default: break
      }
    }
  }

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
