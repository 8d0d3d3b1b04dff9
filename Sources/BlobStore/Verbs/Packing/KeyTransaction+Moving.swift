internal import BlobRecord
internal import Posix

// A move of a record between the engines, for `Relocation`.
extension KeyTransaction {
  enum Move {
    /// The record was moved. Its size in bytes is that of its file.
    case done(Int64)
    /// The record was removed, or is already in that engine.
    case gone
    case unsuited, expired, damaged
  }

  enum Engine {
    case files, packs
  }

  /// Moves the record to an engine, if it is sound and live. Throws `PacksAreFull` or `IndexIsFull`, with nothing moved.
  mutating func move(to engine: Engine) throws -> Move {
    let judge = core.judge(at: core.configuration.now())
    switch engine {
    case .files:
      let found = try records.findPacked(path, of: open, by: judge, comparesPayload: true)
      if let reason = try Self.reasonToStay(found, isPacked: true) { return reason }
      try moveToFile()
      return .done(Self.header(of: found)?.fileByteCount ?? 0)
    case .packs:
      let found = try core.lookUpInSubdirectory(of: path, open) { directory in
        try records.recordToRemove(at: path, in: directory, of: open, by: judge)
      }
      if let reason = try Self.reasonToStay(found, isPacked: false) { return reason }
      guard let header = Self.header(of: found) else { return .gone }
      guard records.belongsInPack(header, at: path, in: open), var packs = try records.madePacks(of: open) else {
        return .unsuited
      }
      guard let body = try body(of: header) else { return .damaged }
      try unsafe body.withUnsafeBytes { body in
        var draft = unsafe PackedDraft(PackedBody(body, payload: Int(header.payloadSize)))
        let level = level(concernsLock: header.isLocked)
        _ = try packs.commit(&draft, header, as: path, replacing: found, isSureOfName: true, level, of: open, &hold)
      }
      return .done(header.fileByteCount)
    }
  }

  /// Never inlined, because the optimizer of Swift 6.3 fails if a noncopyable value is inspected and then borrowed.
  @inline(never)
  private static func reasonToStay(_ found: borrowing FoundRecord?, isPacked: Bool) throws -> Move? {
    switch found {
    case nil: return .gone
    case let found?:
      guard (found.packed != nil) == isPacked else { return .gone }
      switch found.content {
      case .sound: return nil
      case .expired: return .expired
      case .damaged: return .damaged
      case .unreadable(let error): throw error
      }
    }
  }

  @inline(never)
  private static func header(of found: borrowing FoundRecord?) -> RecordHeader? {
    switch found {
    case nil: nil
    case let found?: found.header
    }
  }

  /// Returns the payload and extension of the record's file, or `nil` if they do not match the header.
  private func body(of header: RecordHeader) throws -> [UInt8]? {
    guard case .regular(let file, _) = try records.open(path, in: open, for: .read) else { return nil }
    let body = try file.bytes(in: RecordHeader.byteCount..<Int(header.fileByteCount))
    guard body.count == Int(header.fileByteCount) - RecordHeader.byteCount,
      header.payloadChecksum
        == CRC32.checksum(of: unsafe body.span.bytes.extracting(first: Int(header.payloadSize)))
    else { return nil }
    return body
  }
}
