internal import BlobRecord
internal import FuzzSupport

/// The required result of a load: an independent implementation of the rules in Spec/RecordFormat.md.
enum Verdict: Equatable {
  case found([UInt8])
  case absent
  /// The code of the first violated rule.
  case damaged(Int)

  /// - Parameters:
  ///   - readsPayload: A Boolean value that indicates whether the payload's checksum is verified.
  ///   - readsExtension: A Boolean value that indicates whether the extension is verified.
  init(_ input: RecordInput, readsPayload: Bool = true, readsExtension: Bool = true) {
    let file = input.file
    guard file.count >= 64 else {
      self = .damaged(105)
      return
    }
    let flags: UInt32 = file.integer(at: 56)
    let body = ReferenceBody(of: file)
    if !file.starts(with: Array("SPTF".utf8)) {
      self = .damaged(100)
    } else if file.integer(at: 60) != ReferenceChecksum.crc32(file[..<60]) {
      self = .damaged(104)
    } else if file.integer(at: 4) != 64 as UInt32 {
      self = .damaged(102)
    } else if flags & ~15 != 0 {
      self = .damaged(110)
    } else if !Self.isLive(file, input) {
      self = .absent
    } else if flags & 1 != 0 {
      // The stream is abandoned, because no writer has locked the file.
      self = .damaged(113)
    } else if !body.fits {
      self = .damaged(103)
    } else if readsPayload, flags & 2 != 0, file.integer(at: 48) != ReferenceChecksum.crc32(body.payload) {
      self = .damaged(108)
    } else if flags & 4 != 0, file.integer(at: 40) != ReferenceChecksum.fnv1a(input.fileName.utf8) {
      self = .damaged(109)
    } else if readsExtension, !body.hasSoundExtension {
      self = .damaged(112)
    } else if readsExtension, let key = body.keptKey, !Self.isName(input.fileName, of: key) {
      self = .damaged(109)
    } else {
      self = .found(body.payload)
    }
  }

  private static func isName(_ name: String, of key: String) -> Bool {
    // Compared by bytes, because Swift treats canonically equivalent strings as equal.
    (try? RecordNaming.encoded.fileName(for: BlobKey(key))).map { $0.utf8.elementsEqual(name.utf8) } ?? false
  }

  private static func isLive(_ file: [UInt8], _ input: RecordInput) -> Bool {
    let refCount: UInt32 = file.integer(at: 8)
    let ttl: UInt64 = file.integer(at: 16)
    // The specification saturates both values, so their sum does not overflow 128 bits.
    let updated = Int128(Int64(clamping: file.integer(at: 24) as UInt64))
    let lifetime = ttl == 0 ? Int128(input.defaultExpiration) : Int128(Int64(clamping: ttl))
    // An expiry after the last representable second is never reached.
    return refCount > 0 || Int128(input.now.seconds) <= min(updated + lifetime, Int128(Int64.max))
  }
}
