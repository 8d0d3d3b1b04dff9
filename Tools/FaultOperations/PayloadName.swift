public import Foundation

/// Stands for the bytes of a payload: whoever knows the name can tell the payload from all others.
public struct PayloadName: Hashable, Sendable {
  public var tag: String
  public var byteCount: Int

  public init(_ tag: String, _ byteCount: Int) {
    self.tag = tag
    self.byteCount = byteCount
  }

  /// The payload: pseudo-random bytes that the tag seeds, so that no part of one payload is found in another.
  public var bytes: Data {
    var state = PayloadDigest.fnv1a(tag.utf8)
    return Data(
      (0..<byteCount).map { _ in
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return UInt8(truncatingIfNeeded: state >> 56)
      })
  }

  /// What an inspection shows of it.
  public var digest: String { PayloadDigest.of(bytes) }
}

/// Payloads as inspections and results show them: their size, and a hash that is none of the record format's.
public enum PayloadDigest {
  public static func of(_ payload: some Collection<UInt8>) -> String {
    "\(payload.count):" + String(fnv1a(payload), radix: 16)
  }

  static func fnv1a(_ bytes: some Sequence<UInt8>) -> UInt64 {
    bytes.reduce(0xcbf2_9ce4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 }
  }
}
