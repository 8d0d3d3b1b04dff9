/// The header fields that a fuzz input requests to be repaired.
///
/// Fuzzers do not guess checksums, so without repairs few inputs would pass the check of the crc.
public struct HeaderRepair: OptionSet, Sendable {
  public var rawValue: UInt8

  public init(rawValue: UInt8) {
    self.rawValue = rawValue
  }

  public static let crc = HeaderRepair(rawValue: 1)
  public static let payloadSize = HeaderRepair(rawValue: 2)
  public static let payloadChecksum = HeaderRepair(rawValue: 4)
  public static let keyDigest = HeaderRepair(rawValue: 8)
  public static let signature = HeaderRepair(rawValue: 16)
  /// Turns the last bytes into the footer of an extension whose sizes of key and data fit the file.
  public static let extensionFooter = HeaderRepair(rawValue: 32)

  /// Repairs the header at the start of a record file.
  public func apply(to file: inout [UInt8], fileName: String) {
    guard file.count >= 64 else { return }
    if contains(.signature) {
      file.replaceSubrange(0..<4, with: Array("SPTF".utf8))
      file.put(64 as UInt32, at: 4)
    }
    if contains(.extensionFooter), file.count >= 64 + 16 {
      let end = file.count
      let size = min(Int(file[end - 16] % 32), end - 80)
      file.put(UInt32(file[end - 12] % 2 == 0 ? 0 : size), at: end - 16)
      file.put(UInt32(file[end - 12] % 2 == 0 ? size : 0), at: end - 12)
      file.replaceSubrange((end - 8)..<(end - 4), with: Array("SPTX".utf8))
      file.put(ReferenceChecksum.crc32(file[(end - 16 - size)..<(end - 4)]), at: end - 4)
      file[56] |= 8
      file.put(UInt32(16 + size), at: 52)
    }
    let tailSize = file[56] & 8 != 0 ? min(Int(file.integer(at: 52) as UInt32), file.count - 64) : 0
    if contains(.payloadSize) { file.put(UInt64(file.count - 64 - tailSize), at: 32) }
    if contains(.payloadChecksum) { file.put(ReferenceChecksum.crc32(file[64..<(file.count - tailSize)]), at: 48) }
    if contains(.keyDigest) { file.put(ReferenceChecksum.fnv1a(fileName.utf8), at: 40) }
    if contains(.crc) { file.put(ReferenceChecksum.crc32(file[..<60]), at: 60) }
  }
}
