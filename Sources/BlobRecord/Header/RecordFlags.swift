/// The `flags` field of the header.
public struct RecordFlags: OptionSet, Hashable, Sendable {
  public var rawValue: UInt32

  public init(rawValue: UInt32) {
    self.rawValue = rawValue
  }

  /// SPTPersistentCache's: the payload is still being streamed. Declared there, set by nothing.
  public static let streamIncomplete = RecordFlags(rawValue: 0x1)
  /// `reserved3` holds the CRC-32 of the payload.
  public static let payloadChecksum = RecordFlags(rawValue: 0x2)
  /// `reserved2` holds the `NameDigest` of the file name.
  public static let keyDigest = RecordFlags(rawValue: 0x4)

  /// A `RecordExtension` lies behind the payload, and ends `reserved4` bytes behind it.
  public static let hasExtension = RecordFlags(rawValue: 0x8)

  /// Every flag this version understands; a record with another is a later version's.
  public static let known: RecordFlags = [.streamIncomplete, .payloadChecksum, .keyDigest, .hasExtension]
}

extension RecordFlags: CustomStringConvertible {
  /// The names of the flags that are set, such as `payloadChecksum, keyDigest`; `none` without any.
  public var description: String {
    let named: [(RecordFlags, String)] = [
      (.streamIncomplete, "streamIncomplete"), (.payloadChecksum, "payloadChecksum"), (.keyDigest, "keyDigest"),
      (.hasExtension, "extension"),
    ]
    var names = named.filter { contains($0.0) }.map(\.1)
    let unknown = subtracting(.known)
    if !unknown.isEmpty { names.append("unknown 0x\(String(unknown.rawValue, radix: 16))") }
    return names.isEmpty ? "none" : names.joined(separator: ", ")
  }
}
