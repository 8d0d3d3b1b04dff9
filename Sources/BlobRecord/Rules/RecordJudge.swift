/// Tells whether a record file is sound, by the rules of Spec/RecordFormat.md 4 and 5.
///
/// A caller says what it knows. A load knows everything, a listing no payload. The order of the rules is `RecordRule`'s.
public struct RecordJudge: Sendable {
  /// nil where age is no matter.
  private let clock: Clock?

  private struct Clock {
    var now: UnixTime
    var defaultExpiration: Int64
  }

  /// Judges records at any age.
  public init() { clock = nil }

  /// Judges as a reader does: an expired record is judged by its header alone.
  public init(at now: UnixTime, defaultExpiration: Int64) {
    clock = Clock(now: now, defaultExpiration: defaultExpiration)
  }

  /// Judges a file by its first bytes, and by those behind the header where they were read.
  ///
  /// - Parameters:
  ///   - start: what the file begins with: 64 bytes or more, or all it has.
  ///   - facts: what else is known of the file.
  ///   - body: the bytes behind the header, for their checksums.
  /// - Complexity: O(*n*) for *n* bytes of body.
  public func judge(_ start: RawSpan, _ facts: RecordFacts, body: RawSpan? = nil) -> RecordVerdict {
    do throws(RecordError) {
      return judge(try StoredHeader(decoding: start), facts, body: body)
    } catch {
      return .broken(error, nil)
    }
  }

  /// Judges a file whose header was taken apart before.
  public func judge(_ stored: StoredHeader, _ facts: RecordFacts, body: RawSpan? = nil) -> RecordVerdict {
    let header: RecordHeader
    do throws(RecordError) {
      header = try stored.validated()
    } catch {
      return .broken(error, nil)
    }
    if let clock, !header.isLive(at: clock.now, defaultExpiration: clock.defaultExpiration) { return .expired(header) }
    if let breach = RecordRule.complete.firstBreach(through: .wholeExtension, by: stored, facts, body) {
      return .broken(breach, header)
    }
    return .sound(header)
  }
}

/// The verdict on a record file, as far as it was judged.
public enum RecordVerdict: Hashable, Sendable {
  /// No rule is broken, and the record is live where its age was judged.
  case sound(RecordHeader)
  /// The header is sound, and the record is expired and not locked: as good as absent.
  case expired(RecordHeader)
  /// The first broken rule, and the header if that is sound in itself.
  case broken(RecordError, RecordHeader?)

  /// The header of a sound record; else nil, because locks and times are not believed.
  public var soundHeader: RecordHeader? {
    if case .sound(let header) = self { header } else { nil }
  }
}
