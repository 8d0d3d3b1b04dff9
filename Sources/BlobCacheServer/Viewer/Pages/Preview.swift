internal import BlobCache
internal import BlobRecord
internal import BlobStore
internal import TextFormats

enum Preview: Sendable {
  case image
  case audio
  case video
  case text(String, isCut: Bool)
  case bytes([UInt8], isCut: Bool)
  case none(String)

  private static let textByteCount: Int64 = 16 << 10
  private static let shownByteCount: Int64 = 256
  /// The maximum size of an image that is shown automatically.
  private static let largestImage: Int64 = 16 << 20

  init(of inspection: RecordInspection, _ reference: RecordReference, _ cache: BlobCache) async throws {
    guard case .key(let key) = reference, [.live, .locked].contains(inspection.state) else {
      self = .none(
        inspection.state == .expired
          ? "It is as good as absent: its time is over." : "The payload of such a record is not shown.")
      return
    }
    guard inspection.payloadByteCount > 0 else {
      self = .none("It is empty.")
      return
    }
    let type = ShownType(stored: MediaType(extendedData: inspection.extendedData), kind: inspection.payloadKind)
    switch type?.essence.prefix(5) {
    case "image":
      self =
        inspection.payloadByteCount > Self.largestImage ? .none("The image is too large to be shown here.") : .image
    case "audio": self = .audio
    case "video": self = .video
    default:
      let isText = [.text, .json].contains(inspection.payloadKind)
      self = try await Preview(startOf: BlobKey(key), isText: isText, cache)
    }
  }

  private init(startOf key: BlobKey, isText: Bool, _ cache: BlobCache) async throws {
    guard let reader = try await cache.openReader(for: key, touching: false) else {
      self = .none("It is gone.")
      return
    }
    let count = min(reader.byteCount, isText ? Self.textByteCount : Self.shownByteCount)
    let start = try await reader.read(0..<count)
    let isCut = count < reader.byteCount
    self = isText ? .text(String(decoding: start, as: UTF8.self), isCut: isCut) : .bytes(Array(start), isCut: isCut)
  }

  func markup(of reference: RecordReference) -> HTML {
    guard case .key(let key) = reference else { return content("") }
    let link = ViewerLink(.payload).with("key", key)
    let download: HTML =
      if case .none = self { "" } else {
        "<p><a class=\"button\" href=\"\(link.with("download", "1"))\" download>Download</a></p>"
      }
    return "\(content(link.text))\(download)"
  }

  private func content(_ address: String) -> HTML {
    switch self {
    case .image: "<img class=\"preview\" src=\"\(address)\" alt=\"The payload, as an image\">"
    case .audio: "<audio class=\"preview\" src=\"\(address)\" controls preload=\"metadata\"></audio>"
    case .video: "<video class=\"preview\" src=\"\(address)\" controls preload=\"metadata\"></video>"
    case .text(let text, let isCut): "<pre class=\"preview\" tabindex=\"0\">\(text)</pre>\(Self.cut(isCut))"
    case .bytes(let bytes, let isCut):
      "<pre class=\"preview\" tabindex=\"0\">\(Self.dump(bytes))</pre>\(Self.cut(isCut))"
    case .none(let reason): "<p class=\"empty\">\(reason)</p>"
    }
  }

  private static func cut(_ isCut: Bool) -> HTML { isCut ? "<p class=\"hint\">There is more.</p>" : "" }

  private static func dump(_ bytes: [UInt8]) -> String {
    stride(from: 0, to: bytes.count, by: 16).map { start in
      let line = bytes[start..<min(start + 16, bytes.count)]
      let digits = line.map { Hexadecimal.text($0, digits: 2) }.joined(separator: " ")
      let letters = String(line.map { (0x20..<0x7F).contains($0) ? Character(Unicode.Scalar($0)) : "·" })
      let blanks = String(repeating: " ", count: 47 - digits.count)
      return "\(Hexadecimal.text(UInt(start), digits: 4))  \(digits)\(blanks)  \(letters)"
    }.joined(separator: "\n")
  }
}

struct ShownType: Sendable {
  let essence: String

  init?(stored: MediaType?, kind: PayloadKind) {
    if let stored, stored.isPassive {
      essence = stored.text
      return
    }
    switch kind {
    case .png: essence = "image/png"
    case .jpeg: essence = "image/jpeg"
    case .gif: essence = "image/gif"
    case .webP: essence = "image/webp"
    case .mp3: essence = "audio/mpeg"
    case .mp4: essence = "video/mp4"
    case .gzip, .json, .text, .empty, .unknown: return nil
    }
  }
}

extension BlobResponder {
  /// The payload is sent for display or as a download, and the record is not touched.
  func payload(_ target: RequestTarget, _ request: ServerRequest) async throws -> ServerResponse {
    guard case .key(let key) = try RecordReference(target.parameter) else {
      throw Refusal(400, "a payload is asked for by its key")
    }
    let preconditions = try Preconditions(request.fields, now: now)
    guard let found = try await openReader(for: BlobKey(key)) else { throw Refusal(404, "there is no such blob") }
    guard target.parameter("download") == nil, case .open(let reader) = found else {
      return try await answer(to: request, preconditions, with: found, as: nil)
    }
    let start = try await reader.read(0..<min(reader.byteCount, Int64(PayloadKind.examinedByteCount)))
    let kind = unsafe PayloadKind(guessedFrom: Array(start).span.bytes)
    let type = ShownType(stored: found.mediaType, kind: kind)
    return try await answer(to: request, preconditions, with: found, as: type.flatMap { MediaType($0.essence) })
  }
}
