/// FNV-1a, 64 bits, of a record's file name.
///
/// It goes into the header (flag 0x4) and reveals a file that was moved to another name. It also selects the stripe
/// that serializes changes of the key.
///
/// Source: G. Fowler, L. C. Noll, K.-P. Vo, D. Eastlake, "The FNV Non-Cryptographic Hash Algorithm"
/// (draft-eastlake-fnv). Offset basis and prime are those for 64 bits.
public enum NameDigest {
  public static func digest(ofFileName fileName: String) -> UInt64 {
    unsafe fileName.withContiguousUTF8 { bytes in unsafe digest(ofFileName: bytes.span) }
  }

  package static func digest(ofFileName bytes: Span<UInt8>) -> UInt64 {
    var hash: UInt64 = 0xcbf2_9ce4_8422_2325
    for index in bytes.indices { hash = (hash ^ UInt64(bytes[index])) &* 0x100_0000_01b3 }
    return hash
  }
}
