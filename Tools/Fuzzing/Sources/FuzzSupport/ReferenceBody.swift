/// The bytes after a header, parsed by an independent implementation of the rules in Spec/RecordFormat.md.
public struct ReferenceBody {
  public let payload: [UInt8]
  /// A Boolean value that indicates whether the number of bytes matches the header.
  public let fits: Bool
  /// A Boolean value that indicates whether the extension is absent or valid.
  public let hasSoundExtension: Bool
  /// The key in a valid extension, or `nil` if the file has no such key.
  public let keptKey: String?

  /// - Parameter file: The content of a file with at least a complete header.
  public init(of file: [UInt8]) {
    let body = Array(file[64...])
    let payloadSize: UInt64 = file.integer(at: 32)
    let flags: UInt32 = file.integer(at: 56)
    guard flags & 8 != 0 else {
      payload = body
      fits = payloadSize == UInt64(body.count)
      (hasSoundExtension, keptKey) = (true, nil)
      return
    }
    let end = Int(file.integer(at: 52) as UInt32)
    guard payloadSize <= UInt64(body.count), end >= 16, Int(payloadSize) + end <= body.count,
      body.count - Int(payloadSize) <= 208_944
    else {
      (payload, fits, hasSoundExtension, keptKey) = (body, false, false, nil)
      return
    }
    payload = Array(body[..<Int(payloadSize)])
    fits = true
    let key = Self.keyOfExtension(Array(body[Int(payloadSize)..<(Int(payloadSize) + end)]))
    hasSoundExtension = key != nil
    keptKey = key?.isEmpty == false ? key : nil
  }

  /// Returns the key, which may be empty, or `nil` if the extension is invalid.
  private static func keyOfExtension(_ tail: [UInt8]) -> String? {
    let end = tail.count
    let (key, data) = (Int(tail.integer(at: end - 16) as UInt32), Int(tail.integer(at: end - 12) as UInt32))
    guard Array(tail[(end - 8)..<(end - 4)]) == Array("SPTX".utf8), key <= 65_536, data <= 4096, key + data + 16 <= end
    else { return nil }
    let start = end - 16 - data - key
    guard tail.integer(at: end - 4) == ReferenceChecksum.crc32(tail[start..<(end - 4)]) else { return nil }
    return String(validating: tail[start..<(start + key)], as: UTF8.self)
  }
}
