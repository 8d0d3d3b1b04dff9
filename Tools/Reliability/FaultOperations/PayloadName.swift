#if canImport(FoundationEssentials)
  public import FoundationEssentials
#else
  public import Foundation
#endif

/// A name that determines the bytes of a payload and distinguishes it from all others.
public struct PayloadName: Hashable, Sendable {
  public var tag: String
  public var byteCount: Int

  public init(_ tag: String, _ byteCount: Int) {
    self.tag = tag
    self.byteCount = byteCount
  }

  /// The payload: pseudorandom words seeded by the tag, so that no part of one payload occurs in another.
  public var bytes: Data {
    var state = tag.utf8.reduce(0xcbf2_9ce4_8422_2325 as UInt64) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 }
    var words = [UInt64](repeating: 0, count: byteCount / 8 + 1)
    for index in words.indices {
      state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      words[index] = state ^ (state >> 29)
    }
    return words.withUnsafeBytes { Data($0.prefix(byteCount)) }
  }

  /// The digest that an inspection reports for the payload.
  public var digest: String { PayloadDigest.of(bytes) }
}

/// The digest of payloads in inspections and results: the size, and a hash that the record format does not use.
public enum PayloadDigest {
  public static func of(_ payload: Data) -> String {
    // Hashes words, because this code runs without optimization several times in each of thousands of runs.
    var hash: UInt64 = 0xcbf2_9ce4_8422_2325
    payload.withUnsafeBytes { bytes in
      var offset = 0
      while offset < bytes.count {
        var word: UInt64 = 0
        withUnsafeMutableBytes(of: &word) { $0.copyMemory(from: .init(rebasing: bytes[offset...].prefix(8))) }
        hash = (hash ^ word ^ (hash >> 31)) &* 0x100_0000_01b3
        offset += 8
      }
    }
    return "\(payload.count):" + String(hash, radix: 16)
  }
}
