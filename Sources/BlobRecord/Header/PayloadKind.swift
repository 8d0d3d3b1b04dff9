/// The probable kind of a payload, guessed from its first bytes only for display; no code depends on it.
public enum PayloadKind: String, CaseIterable, Sendable {
  case png = "PNG"
  case jpeg = "JPEG"
  case gif = "GIF"
  case webP = "WebP"
  case mp3 = "MP3"
  case mp4 = "MP4"
  case gzip
  case json = "JSON"
  case text
  case empty
  case unknown

  /// The maximum number of bytes that a guess reads.
  public static let examinedByteCount = 512

  /// - Parameter start: The first `examinedByteCount` bytes of the payload, or the whole payload if it is shorter.
  public init(guessedFrom start: RawSpan) {
    let bytes = (0..<min(start.byteCount, Self.examinedByteCount)).map { index in
      unsafe start.unsafeLoad(fromByteOffset: index, as: UInt8.self)
    }
    func has(_ signature: [UInt8], at offset: Int = 0) -> Bool {
      bytes.dropFirst(offset).starts(with: signature)
    }
    self =
      if bytes.isEmpty {
        .empty
      } else if has([0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]) {
        .png
      } else if has([0xFF, 0xD8, 0xFF]) {
        .jpeg
      } else if has(Array("GIF87a".utf8)) || has(Array("GIF89a".utf8)) {
        .gif
      } else if has(Array("RIFF".utf8)), has(Array("WEBP".utf8), at: 8) {
        .webP
      } else if has(Array("ID3".utf8)) || Self.isMPEGAudioFrame(bytes) {
        .mp3
      } else if has(Array("ftyp".utf8), at: 4) {
        .mp4
      } else if has([0x1F, 0x8B, 0x08]) {
        .gzip
      } else if let text = Self.text(bytes, isWhole: bytes.count == start.byteCount) {
        Self.looksLikeJSON(text) ? .json : .text
      } else {
        .unknown
      }
  }

  /// Checks for a header of an MPEG audio frame, layer III, without reserved values: ISO/IEC 11172-3, 2.4.1.3.
  private static func isMPEGAudioFrame(_ bytes: [UInt8]) -> Bool {
    guard bytes.count >= 4, bytes[0] == 0xFF, bytes[1] & 0xE0 == 0xE0 else { return false }
    return bytes[1] & 0x18 != 0x08 && bytes[1] & 0x06 == 0x02 && bytes[2] & 0xF0 != 0xF0 && bytes[2] & 0x0C != 0x0C
  }

  /// Returns the bytes as text, without an incomplete last character, or `nil` if they are not plain text.
  private static func text(_ bytes: [UInt8], isWhole: Bool) -> String? {
    let cuts = isWhole ? 0...0 : 0...3
    for cut in cuts {
      guard let text = String(validating: bytes.dropLast(cut), as: UTF8.self) else { continue }
      let isPlain = text.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F || (0x09...0x0D).contains($0) }
      return isPlain ? text : nil
    }
    return nil
  }

  private static func looksLikeJSON(_ text: String) -> Bool {
    let meaningful = text.utf8.lazy.filter { !(0x09...0x0D).contains($0) && $0 != 0x20 }
    var iterator = meaningful.makeIterator()
    guard let first = iterator.next() else { return false }
    let second = iterator.next()
    return switch first {
    case UInt8(ascii: "{"): second == nil || second == UInt8(ascii: "\"") || second == UInt8(ascii: "}")
    case UInt8(ascii: "["): second.map { "[{\"]-0123456789tfn".utf8.contains($0) } ?? true
    default: false
    }
  }
}
