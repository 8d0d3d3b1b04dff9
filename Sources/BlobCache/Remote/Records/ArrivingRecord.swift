internal import BlobRecord
internal import BlobStore

/// A record that arrives from a remote engine in pieces. The header is checked on arrival, the rest at the end.
struct ArrivingRecord {
  private let place: RemotePlace
  private let engine: String
  private let judge: RecordJudge
  /// The size of the object without the seal, as reported by the engine.
  private let statedByteCount: Int64?
  private let most: Int64
  private var seal: RecordSeal?
  private var head = Data()
  private(set) var header: RecordHeader?
  /// A Boolean value that indicates whether the record is expired. The rest of an expired record is not read.
  private(set) var isExpired = false
  private var payloadByteCount: Int64 = 0
  private var checksum = CRC32()
  private var tail = Data()

  init(
    at place: RemotePlace, statedByteCount: Int64?, most: Int64, seal: RecordSeal?, now: UnixTime, from engine: String
  ) {
    self.place = place
    self.engine = engine
    self.most = most
    self.seal = seal
    // The record has its own time to live, so the default is not used.
    judge = RecordJudge(at: now, defaultExpiration: 0)
    self.statedByteCount = statedByteCount.map { $0 - Int64(seal == nil ? 0 : RecordSeal.byteCount) }
  }

  /// Takes the next bytes, and returns the payload's bytes among them, which share the memory of the piece.
  mutating func take(_ piece: Data) throws(RemoteError) -> Data {
    let missing = RecordHeader.byteCount - head.count
    head.append(piece.prefix(missing))
    guard head.count == RecordHeader.byteCount else { return Data() }
    if header == nil { try judgeHead() }
    guard let header, !isExpired else { return Data() }
    let body = piece.dropFirst(missing)
    let payload = body.prefix(Int(clamping: Int64(clamping: header.payloadSize) - payloadByteCount))
    payloadByteCount += Int64(payload.count)
    checksum.update(payload.bytes)
    seal?.update(payload.bytes)
    tail.append(body.dropFirst(payload.count))
    let longestTail = Int(header.extensionEnd ?? 0) + (seal == nil ? 0 : RecordSeal.byteCount)
    guard tail.count <= longestTail else { throw damaged("bytes follow it") }
    return payload
  }

  private mutating func judgeHead() throws(RemoteError) {
    seal?.update(head.bytes)
    var facts = RecordFacts()
    facts.nameDigest = place.digest
    facts.bodyByteCount = statedByteCount.map { max(0, $0 - Int64(RecordHeader.byteCount)) }
    header = try judged(facts)
    guard let header, header.payloadChecksum != nil, header.keyDigest != nil || isExpired else {
      throw damaged("it has no checksums")
    }
    // The header may state any size if the engine does not report the object's size.
    guard header.payloadSize <= UInt64(clamping: most),
      header.extensionEnd ?? 0 <= RecordExtension.maximumTailByteCount
    else { throw damaged("it says that it is longer than \(most) bytes") }
  }

  private mutating func judged(_ facts: RecordFacts) throws(RemoteError) -> RecordHeader {
    switch judge.judge(head.bytes, facts) {
    case .sound(let header): return header
    case .expired(let header):
      isExpired = true
      return header
    case .broken(let error, _): throw damaged("\(error)")
    }
  }

  /// Checks the whole record at its end, and returns its header and extended data.
  mutating func end() throws(RemoteError) -> (header: RecordHeader, extendedData: Data?) {
    if seal != nil {
      guard tail.count >= RecordSeal.byteCount else { throw damaged("it is not sealed") }
    }
    let stated = tail.suffix(seal == nil ? 0 : RecordSeal.byteCount)
    let encoded = tail.dropLast(stated.count)
    var facts = RecordFacts()
    facts.nameDigest = place.digest
    facts.bodyByteCount = payloadByteCount + Int64(encoded.count)
    facts.payloadCRC = checksum.value
    var kept: RecordExtension?
    if !encoded.isEmpty {
      do throws(RecordError) {
        kept = try RecordExtension(decoding: encoded.bytes)
      } catch {
        throw damaged("\(error)")
      }
    }
    facts.hasWholeExtension = true
    let header = try judged(facts)
    guard header.payloadChecksum != nil, header.keyDigest != nil else { throw damaged("it has no checksums") }
    seal?.update(encoded.bytes)
    if let seal, !seal.matches(stated) { throw damaged("its seal is not that of this namespace's key") }
    // If the name does not contain the key, the digest of the name does not prove the key.
    guard place.keptKey == nil || kept?.key?.string.utf8.elementsEqual(place.key.string.utf8) == true else {
      throw damaged("it keeps another key")
    }
    return (header, kept.flatMap { $0.data.isEmpty ? nil : Data($0.data) })
  }

  private func damaged(_ why: String) -> RemoteError {
    RemoteError(.damaged, "\(engine): \(place.name) is no record of its key: \(why)")
  }
}

/// A record that came from a remote engine and was checked by every rule of the format.
struct ReceivedRecord: Sendable {
  let header: RecordHeader
  let payload: Data
  let extendedData: Data?
  let modified: UnixTime?
}

/// A record from a remote engine that was written to a file, which becomes visible with the commit.
struct ReceivedFile<Writer: ReceivedPayloadWriter>: Sendable {
  let header: RecordHeader
  let writer: Writer
  let extendedData: Data?
  let modified: UnixTime?
}

/// A destination for the payload of a record that arrives from a remote engine in pieces.
protocol ReceivedPayloadWriter: Sendable {
  func append(_ bytes: Data) async throws
  /// Discards the payload; nothing of it remains.
  func giveUp() async
}
