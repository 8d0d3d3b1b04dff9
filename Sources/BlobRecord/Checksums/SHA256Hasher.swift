#if canImport(CryptoKit)
  internal import CryptoKit
#endif

/// An incremental SHA-256 hasher.
///
/// CryptoKit computes the digest on Apple platforms, and the code below on other platforms, because a library for
/// this one function would take most of a client's build time.
///
/// Source: FIPS 180-4, "Secure Hash Standard", sections 4.1.2, 4.2.2, 5.1.1, 5.3.3 and 6.2.
package struct SHA256Hasher: Sendable {
  #if canImport(CryptoKit)
    private var hasher = SHA256()
  #else
    private static let blockByteCount = 64

    private var state = initialState
    private var pending: [UInt8] = []
    private var byteCount: UInt64 = 0
  #endif

  package init() {}

  package mutating func update(_ bytes: RawSpan) {
    #if canImport(CryptoKit)
      unsafe bytes.withUnsafeBytes { unsafe hasher.update(bufferPointer: $0) }
    #else
      byteCount &+= UInt64(bytes.byteCount)
      var offset = 0
      if !pending.isEmpty {
        offset = min(Self.blockByteCount - pending.count, bytes.byteCount)
        keep(bytes.extracting(..<offset))
        guard pending.count == Self.blockByteCount else { return }
        let block = pending
        Self.compress(unsafe block.span.bytes, into: &state)
        pending = []
      }
      while bytes.byteCount - offset >= Self.blockByteCount {
        Self.compress(bytes.extracting(offset..<offset + Self.blockByteCount), into: &state)
        offset += Self.blockByteCount
      }
      keep(bytes.extracting(offset...))
    #endif
  }

  package consuming func finalize() -> [UInt8] {
    #if canImport(CryptoKit)
      return Array(hasher.finalize())
    #else
      // The padding is a set bit, zeros, and the length in bits, so the tail is one block or two.
      let bitCount = byteCount &* 8
      var tail = pending
      tail.append(0x80)
      while tail.count % Self.blockByteCount != Self.blockByteCount - 8 { tail.append(0) }
      Self.appendBigEndian(bitCount, to: &tail)
      var state = state
      for start in stride(from: 0, to: tail.count, by: Self.blockByteCount) {
        Self.compress(unsafe tail.span.bytes.extracting(start..<start + Self.blockByteCount), into: &state)
      }
      var digest: [UInt8] = []
      digest.reserveCapacity(SHA256Digest.byteCount)
      for index in state.indices { Self.appendBigEndian(state[index], to: &digest) }
      return digest
    #endif
  }

  #if !canImport(CryptoKit)
    private mutating func keep(_ bytes: RawSpan) {
      for offset in 0..<bytes.byteCount {
        pending.append(unsafe bytes.unsafeLoad(fromByteOffset: offset, as: UInt8.self))
      }
    }

    private static func appendBigEndian(_ value: some FixedWidthInteger & UnsignedInteger, to bytes: inout [UInt8]) {
      for shift in stride(from: value.bitWidth - 8, through: 0, by: -8) {
        bytes.append(UInt8(truncatingIfNeeded: value >> shift))
      }
    }

    /// Processes a block of 64 bytes: FIPS 180-4, 6.2.2.
    private static func compress(_ block: RawSpan, into state: inout InlineArray<8, UInt32>) {
      var schedule = InlineArray<64, UInt32>(repeating: 0)
      for index in 0..<16 {
        schedule[index] = unsafe UInt32(
          bigEndian: block.unsafeLoadUnaligned(fromByteOffset: 4 * index, as: UInt32.self))
      }
      for index in 16..<64 {
        let (early, late) = (schedule[index - 15], schedule[index - 2])
        let low = rotated(early, 7) ^ rotated(early, 18) ^ (early >> 3)
        let high = rotated(late, 17) ^ rotated(late, 19) ^ (late >> 10)
        schedule[index] = schedule[index - 16] &+ low &+ schedule[index - 7] &+ high
      }
      // The names of the standard.
      var (a, b, c, d) = (state[0], state[1], state[2], state[3])
      var (e, f, g, h) = (state[4], state[5], state[6], state[7])
      for index in 0..<64 {
        let choice = (e & f) ^ (~e & g)
        let majority = (a & b) ^ (a & c) ^ (b & c)
        let first =
          h &+ (rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25)) &+ choice &+ constants[index] &+ schedule[index]
        let second = (rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22)) &+ majority
        (h, g, f, e, d, c, b, a) = (g, f, e, d &+ first, c, b, a, first &+ second)
      }
      let mixed: InlineArray<8, UInt32> = [a, b, c, d, e, f, g, h]
      for index in mixed.indices { state[index] &+= mixed[index] }
    }

    private static func rotated(_ word: UInt32, _ count: UInt32) -> UInt32 { word >> count | word << (32 - count) }

    /// The fractional parts of the square roots of the first 8 primes: FIPS 180-4, 5.3.3.
    private static let initialState: InlineArray<8, UInt32> = [
      0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19,
    ]

    /// The fractional parts of the cube roots of the first 64 primes: FIPS 180-4, 4.2.2.
    private static let constants: InlineArray<64, UInt32> = [
      0x428a_2f98, 0x7137_4491, 0xb5c0_fbcf, 0xe9b5_dba5, 0x3956_c25b, 0x59f1_11f1, 0x923f_82a4, 0xab1c_5ed5,
      0xd807_aa98, 0x1283_5b01, 0x2431_85be, 0x550c_7dc3, 0x72be_5d74, 0x80de_b1fe, 0x9bdc_06a7, 0xc19b_f174,
      0xe49b_69c1, 0xefbe_4786, 0x0fc1_9dc6, 0x240c_a1cc, 0x2de9_2c6f, 0x4a74_84aa, 0x5cb0_a9dc, 0x76f9_88da,
      0x983e_5152, 0xa831_c66d, 0xb003_27c8, 0xbf59_7fc7, 0xc6e0_0bf3, 0xd5a7_9147, 0x06ca_6351, 0x1429_2967,
      0x27b7_0a85, 0x2e1b_2138, 0x4d2c_6dfc, 0x5338_0d13, 0x650a_7354, 0x766a_0abb, 0x81c2_c92e, 0x9272_2c85,
      0xa2bf_e8a1, 0xa81a_664b, 0xc24b_8b70, 0xc76c_51a3, 0xd192_e819, 0xd699_0624, 0xf40e_3585, 0x106a_a070,
      0x19a4_c116, 0x1e37_6c08, 0x2748_774c, 0x34b0_bcb5, 0x391c_0cb3, 0x4ed8_aa4a, 0x5b9c_ca4f, 0x682e_6ff3,
      0x748f_82ee, 0x78a5_636f, 0x84c8_7814, 0x8cc7_0208, 0x90be_fffa, 0xa450_6ceb, 0xbef9_a3f7, 0xc671_78f2,
    ]
  #endif
}

/// SHA-256 digests of bytes in memory, which serve as file names under the `sha256` naming.
package enum SHA256Digest {
  package static let byteCount = 32

  package static func digest(of bytes: RawSpan) -> [UInt8] {
    var hasher = SHA256Hasher()
    hasher.update(bytes)
    return hasher.finalize()
  }
}
