internal import BlobRecord
internal import BlobStore

#if canImport(FoundationEssentials)
  internal import FoundationEssentials
#else
  internal import Foundation
#endif

/// A record that came from a remote engine, after every rule of the format was asked of it.
struct ReceivedRecord: Sendable {
  let header: RecordHeader
  let payload: Data
  let extendedData: Data?
}

extension ReceivedRecord {
  /// Judges the bytes of an object.
  ///
  /// - Parameters:
  ///   - head: the first 64 bytes, or all that there are.
  ///   - body: the bytes behind them. They become the payload without a copy where nothing follows it.
  ///   - place: whose record it must be.
  ///   - now: when it must be live.
  ///   - engine: where it came from.
  /// - Returns: nil if the record is expired.
  /// - Throws: `RemoteError` `damaged`.
  /// - Complexity: O(*n*) for *n* bytes.
  init?(_ head: Data, _ body: Data, at place: RemotePlace, now: UnixTime, from engine: String) throws(RemoteError) {
    func damaged(_ why: String) -> RemoteError {
      RemoteError(.damaged, "\(engine): \(place.name) is no record of its key: \(why)")
    }
    var facts = RecordFacts()
    facts.bodyByteCount = Int64(body.count)
    facts.nameDigest = place.digest
    // The time to live is the record's own, so no default counts.
    switch RecordJudge(at: now, defaultExpiration: 0).judge(head.bytes, facts, body: body.bytes) {
    case .expired: return nil
    case .broken(let error, _): throw damaged("\(error)")
    case .sound(let header):
      guard header.payloadChecksum != nil, header.keyDigest != nil else { throw damaged("it has no checksums") }
      let kept: RecordExtension?
      do throws(RecordError) {
        kept = try header.extensionEnd.map { end throws(RecordError) in
          try RecordExtension(
            decoding: body.bytes.extracting(Int(header.payloadSize)..<(Int(header.payloadSize) + Int(end))))
        }
      } catch {
        throw damaged("\(error)")
      }
      // The digest of a name is no proof of a key that the name does not tell.
      guard place.keptKey == nil || kept?.key?.string.utf8.elementsEqual(place.key.string.utf8) == true else {
        throw damaged("it keeps another key")
      }
      self.header = header
      let size = Int(header.payloadSize)
      payload = size == body.count ? body : Data(body.prefix(size))
      extendedData = kept.flatMap { $0.data.isEmpty ? nil : Data($0.data) }
    }
  }
}
