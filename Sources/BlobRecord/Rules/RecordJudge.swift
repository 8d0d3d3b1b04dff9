/// Checks whether a record file is sound, by the rules of Spec/RecordFormat.md 4 and 5.
///
/// A caller passes the facts that it knows: a load knows all of them, and a listing does not know the payload. The
/// rules are checked in the order of `RecordRule`.
public struct RecordJudge: Sendable {
  private let clock: Clock?

  private struct Clock {
    var now: UnixTime
    var defaultExpiration: Int64
  }

  /// Creates a judge that ignores the age of records.
  public init() { clock = nil }

  /// Creates a judge that works like a reader: for an expired record, only the header is checked.
  public init(at now: UnixTime, defaultExpiration: Int64) {
    clock = Clock(now: now, defaultExpiration: defaultExpiration)
  }

  /// Judges a file by its first bytes and, if they were read, by the bytes after the header.
  ///
  /// - Parameters:
  ///   - start: The first bytes of the file: 64 bytes or more, or the whole file.
  ///   - facts: Other known facts of the file.
  ///   - body: The bytes after the header, for their checksums.
  /// - Complexity: O(*n*) for *n* bytes of body.
  public func judge(_ start: RawSpan, _ facts: RecordFacts, body: RawSpan? = nil) -> RecordVerdict {
    do throws(RecordError) {
      return judge(try StoredHeader(decoding: start), facts, body: body)
    } catch {
      return .broken(error, nil)
    }
  }

  /// Judges a file by its decoded header.
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

/// The verdict on a record file.
public enum RecordVerdict: Hashable, Sendable {
  /// No rule is broken, and the record is live if its age was checked.
  case sound(RecordHeader)
  /// The header is sound, but the record is expired and not locked, so it counts as absent.
  case expired(RecordHeader)
  /// The first broken rule, and the header if the header itself is sound.
  case broken(RecordError, RecordHeader?)

  /// The header of a sound record, or `nil` for other verdicts, because their locks and times are not trusted.
  public var soundHeader: RecordHeader? {
    if case .sound(let header) = self { header } else { nil }
  }
}
