internal import BlobRecord
internal import Posix
internal import SystemPackage

/// A record file at its name, looked at once: what its status and its header said.
///
/// Nothing holds it still. A change looks under the key's hold, and changes what it has found there.
struct FoundRecord {
  let name: RecordPath
  /// nil if even that could not be had.
  let status: Stat?
  /// nil if the file's time would not show what is written to it from now on. Of use only if the key was held.
  let version: FileVersion?
  /// What the first 64 bytes hold; nil where there are fewer, or none could be read.
  let stored: StoredHeader?
  let content: Content

  enum Content {
    case sound(RecordHeader)
    case expired(RecordHeader)
    /// With the header if that is sound in itself.
    case damaged(RecordError, RecordHeader?)
    /// Nothing is known of it.
    case unreadable(any Error)
  }

  /// Looks at an open file.
  ///
  /// System call: `pread(2)`.
  ///
  /// - Parameters:
  ///   - status: from before, so that a later write shows.
  ///   - isExposed: whether others may write to the file who may not change the cache.
  ///   - judge: whether age matters.
  init(
    _ name: RecordPath, _ file: borrowing OpenFile, _ status: Stat, isExposed: Bool, by judge: RecordJudge
  ) throws(FileError) {
    self.name = name
    self.status = status
    version = FileVersion(status)
    let verdict: RecordVerdict
    switch try file.readHeader() {
    case .success(let header):
      stored = header
      verdict = judge.judge(header, RecordFacts(fileSize: status.size, nameDigest: name.digest))
    case .failure(let error):
      stored = nil
      verdict = .broken(error, nil)
    }
    content =
      switch verdict {
      case .broken(let error, let header): .damaged(error, header)
      case .sound(let header) where isExposed, .expired(let header) where isExposed: .damaged(.writableByOthers, header)
      case .sound(let header): .sound(header)
      case .expired(let header): .expired(header)
      }
  }

  /// A file that could not be read.
  ///
  /// - Parameter status: nil if even that could not be had.
  init(_ name: RecordPath, unreadable error: any Error, _ status: Stat?) {
    self.name = name
    self.status = status
    version = nil
    stored = nil
    content = .unreadable(error)
  }
}

extension FoundRecord {
  /// The header of a record that is sound, expired or not. A damaged one tells of no locks.
  var header: RecordHeader? {
    switch content {
    case .sound(let header), .expired(let header): header
    case .damaged, .unreadable: nil
    }
  }

  var byteCount: Int64 { status?.size ?? 0 }

  var isLocked: Bool { header?.isLocked ?? false }

  /// Whether a lock may be lost with it: what cannot be read may be locked.
  var mayBeLocked: Bool {
    if case .unreadable = content { true } else { isLocked }
  }

  /// As the counters see it.
  var size: RecordSize { RecordSize(bytes: byteCount, isLocked: isLocked) }

  /// The digest in its header, if the file may be overwritten once no reader has it open.
  ///
  /// nil for a file with another name, and for a record that is damaged, locked or without checksums.
  var recyclableDigest: UInt64? {
    guard let status, status.linkCount <= 1 else { return nil }
    return header?.recyclableDigest
  }
}
