import BlobRecord
import TestSupport
import Testing

@Suite struct RecordJudgeTests {
  /// Spec/RecordFormat.md 4.
  static let codesInOrder = [105, 100, 104, 102, 110, 106, 103, 108, 109, 112]

  @Test func aFileThatBreaksAllRulesIsDamagedByTheFirst() {
    let payload = Array("payload".utf8)
    var tail = RecordExtension(data: [1]).encoded
    tail[0] ^= 1
    // The header states one byte more than the file has.
    var header = RecordHeader(updateTime: 0, payloadSize: 8, flags: .known)
    header.payloadChecksum = 1
    header.keyDigest = 1
    header.extensionEnd = UInt32(tail.count)
    var bytes = header.encodedBytes
    put(0x1F as UInt32, at: 56, in: &bytes)
    put(72 as UInt32, at: 4, in: &bytes)
    bytes[0] ^= 1
    var length = 63
    let mendings: [() -> Void] = [
      { length = 64 },
      { bytes[0] ^= 1 },
      { sealHeader(&bytes) },
      {
        put(64 as UInt32, at: 4, in: &bytes)
        sealHeader(&bytes)
      },
      {
        put(0xF as UInt32, at: 56, in: &bytes)
        sealHeader(&bytes)
      },
      {
        put(0xE as UInt32, at: 56, in: &bytes)
        sealHeader(&bytes)
      },
      {
        put(7 as UInt64, at: 32, in: &bytes)
        sealHeader(&bytes)
      },
      {
        put(CRC32.checksum(of: payload), at: 48, in: &bytes)
        sealHeader(&bytes)
      },
      {
        put(2 as UInt64, at: 40, in: &bytes)
        sealHeader(&bytes)
      },
      { tail[0] ^= 1 },
    ]
    var codes: [Int] = []
    func verdict() -> RecordVerdict {
      RecordJudge().judge(Array(bytes[..<length]), RecordFacts(nameDigest: 2), payload: payload + tail)
    }
    for mend in mendings {
      if let breach = verdict().breach { codes.append(breach.code) }
      mend()
    }
    #expect(codes == Self.codesInOrder)
    #expect(codes.count == RecordRule.allCases.count)
    #expect(verdict().soundHeader != nil)
  }

  @Test func ageIsJudgedBetweenHeaderAndPayload() {
    let judge = RecordJudge(at: UnixTime(seconds: 1000), defaultExpiration: 600)
    let old = RecordHeader(updateTime: 399, payloadSize: 8, flags: .streamIncomplete)
    #expect(judge.judge(old.encodedBytes, payload: []) == .expired(old))
    #expect(old.breach() == .recordIsStreamAndBusy)

    var locked = old
    locked.refCount = 1
    #expect(judge.judge(locked.encodedBytes, payload: []) == .broken(.recordIsStreamAndBusy, locked))
    var young = old
    young.updateTime = 400
    #expect(judge.judge(young.encodedBytes, payload: []) == .broken(.recordIsStreamAndBusy, young))

    let unknown = RecordFlags(rawValue: 0x10)
    let later = RecordHeader(updateTime: 0, payloadSize: 0, flags: unknown)
    #expect(judge.judge(later.encodedBytes) == .broken(.unsupportedFlags(unknown), nil))
  }

  @Test func whatIsNotKnownIsPassedOver() {
    var header = RecordHeader(updateTime: 0, payloadSize: 9)
    header.payloadChecksum = 1
    header.keyDigest = 1
    #expect(header.breach() == nil)
    #expect(header.breach(RecordFacts(fileSize: 73)) == nil)
    #expect(header.breach(RecordFacts(fileSize: 72)) == .wrongPayloadSize(stated: 9, found: 8))
    #expect(header.breach(RecordFacts(payloadCRC: 2)) == .payloadChecksumMismatch(stated: 1, computed: 2))
    #expect(header.breach(RecordFacts(nameDigest: 2)) == .keyMismatch(stated: 1, expected: 2))
  }

  @Test(arguments: [-1, 0, 399, 401, .max] as [Int64]) func anotherPayloadSizeIsAnError(found: Int64) {
    let header = RecordHeader(updateTime: 0, payloadSize: 400)
    #expect(header.breach(RecordFacts(bodyByteCount: found)) == .wrongPayloadSize(stated: 400, found: found))
    #expect(header.breach(RecordFacts(bodyByteCount: 400)) == nil)
  }

  /// A record with an extension may be followed by another extension, but by nothing else.
  @Test(arguments: [-1, 7, 23, 27, 28, 29, mostBytes - 1, mostBytes, mostBytes + 1, .max] as [Int64])
  func anExtensionMakesRoomForAnother(found: Int64) {
    let fits = (28...Self.mostBytes).contains(found)
    var header = RecordHeader(updateTime: 0, payloadSize: 8)
    header.extensionEnd = 20
    let facts = RecordFacts(bodyByteCount: found)
    #expect(header.breach(facts) == (fits ? nil : .wrongPayloadSize(stated: 8, found: found)))
    // An extension is at least as long as its footer.
    header.extensionEnd = 15
    #expect(header.breach(facts) == .wrongPayloadSize(stated: 8, found: found))
    header.payloadSize = .max
    #expect(header.breach(facts) == .wrongPayloadSize(stated: .max, found: found))
  }

  private static let mostBytes = Int64(8 + RecordExtension.maximumTailByteCount)

  @Test func aPayloadSizeThatNoFileHasIsAnError() {
    let header = RecordHeader(updateTime: 0, payloadSize: .max)
    for found in [-1, 0, .max] as [Int64] {
      #expect(header.breach(RecordFacts(bodyByteCount: found)) == .wrongPayloadSize(stated: .max, found: found))
    }
  }

  @Test func payloadsAreHeldAgainstSizeThenChecksum() {
    let payload = Array("payload".utf8)
    var header = RecordHeader(updateTime: 0, payloadSize: 7)
    #expect(header.breach(payload: payload) == nil)
    #expect(header.breach(payload: Array("anybyte".utf8)) == nil)

    header.payloadChecksum = CRC32.checksum(of: payload)
    #expect(header.breach(payload: payload) == nil)
    #expect(header.breach(RecordFacts(payloadCRC: CRC32.checksum(of: payload))) == nil)
    let other = Array("pAyload".utf8)
    let mismatch = RecordError.payloadChecksumMismatch(
      stated: CRC32.checksum(of: payload), computed: CRC32.checksum(of: other))
    #expect(header.breach(payload: other) == mismatch)
    #expect(header.breach(RecordFacts(payloadCRC: CRC32.checksum(of: other))) == mismatch)
    #expect(header.breach(payload: other + [0]) == .wrongPayloadSize(stated: 7, found: 8))
  }

  @Test func theChecksumOfAnEmptyPayloadIsZeroAndChecked() {
    var header = RecordHeader(updateTime: 0, payloadSize: 0)
    header.payloadChecksum = 0
    #expect(header.breach(payload: []) == nil)
    header.payloadChecksum = 1
    #expect(header.breach(payload: []) == .payloadChecksumMismatch(stated: 1, computed: 0))
  }

  @Test func keyDigestsAreHeldAgainstTheFlagOnly() {
    var header = RecordHeader(updateTime: 0, payloadSize: 0, reserved2: 5)
    #expect(header.breach(RecordFacts(nameDigest: 6)) == nil)
    header.flags.insert(.keyDigest)
    #expect(header.breach(RecordFacts(nameDigest: 5)) == nil)
    #expect(header.breach(RecordFacts(nameDigest: 6)) == .keyMismatch(stated: 5, expected: 6))
  }

  @Test func streamedRecordsAreNotComplete() {
    #expect(RecordHeader(updateTime: 0, payloadSize: 0, flags: [.payloadChecksum, .keyDigest]).breach() == nil)
    #expect(RecordHeader(updateTime: 0, payloadSize: 0, flags: .known).breach() == .recordIsStreamAndBusy)
  }
}
