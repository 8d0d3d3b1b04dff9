/// Which fields of a header a fuzz input wants made right. No fuzzer guesses a checksum, so without this few inputs
/// would come further than the crc.
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

  /// Repairs the header at the start of a record file.
  public func apply(to file: inout [UInt8], fileName: String) {
    guard file.count >= 64 else { return }
    if contains(.signature) {
      file.replaceSubrange(0..<4, with: Array("SPTF".utf8))
      file.put(64 as UInt32, at: 4)
    }
    if contains(.payloadSize) { file.put(UInt64(file.count - 64), at: 32) }
    if contains(.payloadChecksum) { file.put(ReferenceChecksum.crc32(file[64...]), at: 48) }
    if contains(.keyDigest) { file.put(ReferenceChecksum.fnv1a(fileName.utf8), at: 40) }
    if contains(.crc) { file.put(ReferenceChecksum.crc32(file[..<60]), at: 60) }
  }
}
