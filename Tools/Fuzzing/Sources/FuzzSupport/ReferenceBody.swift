/// What lies behind a header, taken apart by the rules of Spec/RecordFormat.md, written down a second time.
public struct ReferenceBody {
  public let payload: [UInt8]
  /// Whether the bytes are as many as the header says.
  public let fits: Bool
  /// Whether there is no extension, or a whole one.
  public let hasSoundExtension: Bool

  /// - Parameter file: a header and more.
  public init(of file: [UInt8]) {
    let body = Array(file[64...])
    let payloadSize: UInt64 = file.integer(at: 32)
    let flags: UInt32 = file.integer(at: 56)
    guard flags & 8 != 0 else {
      payload = body
      fits = payloadSize == UInt64(body.count)
      hasSoundExtension = true
      return
    }
    let end = Int(file.integer(at: 52) as UInt32)
    guard payloadSize <= UInt64(body.count), end >= 16, Int(payloadSize) + end <= body.count,
      body.count - Int(payloadSize) <= 208_944
    else {
      (payload, fits, hasSoundExtension) = (body, false, false)
      return
    }
    payload = Array(body[..<Int(payloadSize)])
    fits = true
    hasSoundExtension = Self.isExtension(Array(body[Int(payloadSize)..<(Int(payloadSize) + end)]))
  }

  private static func isExtension(_ tail: [UInt8]) -> Bool {
    let end = tail.count
    let (key, data) = (Int(tail.integer(at: end - 16) as UInt32), Int(tail.integer(at: end - 12) as UInt32))
    guard Array(tail[(end - 8)..<(end - 4)]) == Array("SPTX".utf8), key <= 65_536, data <= 4096, key + data + 16 <= end
    else { return false }
    let start = end - 16 - data - key
    return tail.integer(at: end - 4) == ReferenceChecksum.crc32(tail[start..<(end - 4)])
      && String(validating: tail[start..<(start + key)], as: UTF8.self) != nil
  }
}
