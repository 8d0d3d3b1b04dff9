/// Where things lie in the control file: Spec/ControlFile.md. A change of any of it is a new version, and a new file.
package enum ControlLayout {
  /// The bytes `BLOBCTL` and a zero, as a little-endian integer.
  package static let magic: UInt64 = 0x004C_5443_424F_4C42
  package static let version: UInt64 = 1

  package static let magicOffset = 0
  package static let versionOffset = 8

  // The hint: how the last program that opened the directory for writing sees it.
  // Whether it is set; default expiration in seconds; size limit in bytes, 0 for none; naming; separation.
  package static let hintOffsets = [64, 72, 80, 88, 96]

  // What the directory holds, counted by every change.
  package static let countersAreKnownOffset = 128
  package static let recordsOffset = 136
  package static let bytesOffset = 144
  package static let lockedRecordsOffset = 152
  package static let lockedBytesOffset = 160

  /// Where the generations begin, on a page of their own.
  package static let generationsOffset = 4096
  /// A multiple of the stripes', so that keys with one generation have one stripe and change one after the other.
  package static let generationCount = 65_536
  package static let byteCount = generationsOffset + generationCount * 4

  /// How many locks keys are spread over.
  package static let stripeCount = 4096

  /// The bytes that are locked, whatever they hold: one a stripe, and one for the collector.
  package static let stripeBytes: Range<Int64> = 0..<Int64(stripeCount)
  package static let collectorByte = Int64(stripeCount)

  package static let lockedBytes = stripeBytes.lowerBound..<(collectorByte + 1)

  package static func stripeByte(of digest: UInt64) -> Range<Int64> {
    let byte = Int64(digest % UInt64(stripeCount))
    return byte..<(byte + 1)
  }

  package static func generationOffset(of digest: UInt64) -> Int {
    generationsOffset + Int(digest % UInt64(generationCount)) * 4
  }
}
