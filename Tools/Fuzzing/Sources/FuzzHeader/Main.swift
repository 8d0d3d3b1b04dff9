internal import BlobRecord
internal import FuzzSupport

/// Checks that a header that decodes is valid by the specification and encodes to the same bytes.
///
/// An input consists of a header, a byte that selects the fields to repair, and the payload.
@main
struct FuzzHeader {
  static func main() {
    FuzzTarget.run { data, count in
      FuzzHeader.test(Array(UnsafeBufferPointer(start: data, count: count)))
      return 0
    }
  }

  static let fileName = "fuzz"

  static func test(_ input: [UInt8]) {
    var bytes = Array(input.prefix(64))
    let repair = HeaderRepair(rawValue: input.count > 64 ? input[64] : 0)
    let payload = Array(input.dropFirst(65))
    bytes += payload
    repair.apply(to: &bytes, fileName: fileName)
    do throws(RecordError) {
      let header = try decode(bytes)
      require(firstBrokenRule(of: bytes) == nil, "a header that breaks a rule was decoded")
      let encoded = header.withEncodedBytes { span in span.withUnsafeBytes { Array($0) } }
      require(encoded == Array(bytes[..<64]), "a header does not encode to the bytes it was decoded from")
      checkTimes(header)
      checkPayload(header, bytes)
    } catch {
      require(error.code == firstBrokenRule(of: bytes), "\(error) is not the first broken rule")
      require(!error.description.isEmpty && !error.name.isEmpty)
    }
  }

  static func decode(_ bytes: [UInt8]) throws(RecordError) -> RecordHeader {
    do throws(RecordError) {
      return try RecordHeader(decoding: bytes.span.bytes)
    } catch {
      guard PlantedBug.active == .skipsHeaderCRC, case .invalidHeaderCRC = error else { throw error }
      var stored = try StoredHeader(decoding: bytes.span.bytes)
      stored.computedCRC = stored.crc
      return try stored.validated()
    }
  }

  /// An independent implementation of the rules in Spec/RecordFormat.md for a header without its file.
  static func firstBrokenRule(of bytes: [UInt8]) -> Int? {
    if bytes.count < 64 { return 105 }
    if Array(bytes[..<4]) != Array("SPTF".utf8) { return 100 }
    if bytes.integer(at: 60) != ReferenceChecksum.crc32(bytes[..<60]) { return 104 }
    if bytes.integer(at: 4) != 64 as UInt32 { return 102 }
    if bytes.integer(at: 56, as: UInt32.self) & ~15 != 0 { return 110 }
    return nil
  }

  /// Checks that no combination of stored time and clock overflows and that the results are consistent.
  static func checkTimes(_ header: RecordHeader) {
    let moments: [Int64] = [.min, -1, 0, 1, 1_700_000_000, .max - 1, .max, Int64(clamping: header.updateTime)]
    for moment in moments {
      let now = UnixTime(seconds: moment)
      for defaultExpiration: Int64 in [1, 600, .max] {
        let isExpired = header.isExpired(at: now, defaultExpiration: defaultExpiration)
        let isLive = header.isLive(at: now, defaultExpiration: defaultExpiration)
        require(isLive == (header.isLocked || !isExpired))
        require(!isExpired || now > header.lastUpdate, "a record of the future has expired")
        require(isExpired == (now > header.expiry(defaultExpiration: defaultExpiration)))
      }
    }
  }

  static func checkPayload(_ header: RecordHeader, _ bytes: [UInt8]) {
    let content = Array(bytes[64...])
    let reference = ReferenceBody(of: bytes)
    let isRight =
      reference.fits && reference.hasSoundExtension
      && (header.payloadChecksum.map { $0 == ReferenceChecksum.crc32(reference.payload) } ?? true)
    func breach(_ facts: RecordFacts, _ body: [UInt8]? = nil) -> Int? {
      let judge = RecordJudge()
      let verdict =
        body.map { judge.judge(bytes.span.bytes, facts, body: $0.span.bytes) }
        ?? judge.judge(bytes.span.bytes, facts)
      if case .broken(let error, _) = verdict { return error.code }
      return nil
    }
    let isComplete = bytes[56] & 1 == 0
    require(breach(RecordFacts()) == (isComplete ? nil : 106))
    guard isComplete else { return }
    let isTaken = breach(RecordFacts(bodyByteCount: Int64(content.count)), content) == nil
    require(isTaken == isRight, "a payload was judged wrongly")
    require(breach(RecordFacts(bodyByteCount: -1)) == 103)
    let digest = ReferenceChecksum.fnv1a(fileName.utf8)
    let isNamedSo = header.keyDigest == nil || header.keyDigest == digest
    require(breach(RecordFacts(nameDigest: digest)) == (isNamedSo ? nil : 109))
  }
}
