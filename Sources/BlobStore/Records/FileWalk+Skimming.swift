internal import BlobRecord
internal import Posix
internal import SystemPackage

// The skimming of records without allocations.
extension FileWalk {
  enum Skimmed {
    case done
    case item(RecordWalk.Item)
    /// The entry is not a sound record with a plain name, or the closure wants it to be returned.
    case toBeMet
  }

  func skimEntry(
    of stream: borrowing DirectoryStream, in directory: borrowing Directory
  ) throws -> Skimmed {
    guard let skim, stream.entryKind == .regular else { return .toBeMet }
    let layout = scope.layout
    let subdirectory = subdirectoryBytes
    let digest = stream.withEntryName { name in
      let digest = NameDigest.digest(ofFileName: name)
      return layout.isPlain(fileName: name, digest: digest, in: subdirectory.span) ? digest : nil
    }
    guard let digest, mayBePacked?(digest) != true else { return .toBeMet }
    let start: FileStart
    do {
      start = try unsafe directory.readStart(of: stream, into: head)
    } catch {
      let path = skimmedPath
      let status = directory.statusOfUnreadable(stream.entry.name)
      if let status, !open.mayBeRecord(status) { return .toBeMet }
      return .item(
        .record(
          RecordEntry(
            unreadable: path?.relative ?? stream.entry.name, path: path, status: status,
            BlobStoreError(error, operation: "read", key: nil))))
    }
    switch start {
    case .absent: return .done
    case .notRegular: return .toBeMet
    case .regular(let status, let byteCount):
      guard open.ownership.owns(status), !open.ownership.owners.expose(status),
        let glance = unsafe RecordGlance(
          RawSpan(_unsafeBytes: head[..<byteCount]), status, digest: digest, by: scope.judge)
      else { return .toBeMet }
      return try skim(glance) ? .done : .toBeMet
    }
  }
}

extension Directory {
  func statusOfUnreadable(_ name: String) -> Stat? {
    // The reason why the file cannot be read is already reported.
    (try? status(of: name)) ?? nil
  }
}

extension OpenRoot {
  func mayBeRecord(_ status: Stat) -> Bool { status.type == .regular && ownership.owns(status) }
}

/// The header, size and identity of a sound record that a walk skims, without allocations.
struct RecordGlance {
  let header: RecordHeader
  let fileSize: Int64
  let fileState: FileState
  let digest: UInt64
  let state: RecordState
  /// The record's index entry, or `nil` for a file.
  let packed: IndexEntry?

  var isPacked: Bool { packed != nil }

  var size: RecordSize { RecordSize(bytes: fileSize, isLocked: state == .locked) }

  /// Returns `nil` if the record is damaged. `head` contains the first 64 bytes of the file, or the whole file if it is
  /// shorter.
  init?(_ head: RawSpan, _ status: Stat, digest: UInt64, by judge: RecordJudge) {
    fileSize = status.size
    fileState = FileState(status)
    switch judge.judge(head, RecordFacts(fileSize: fileSize, nameDigest: digest)) {
    case .sound(let sound): (header, state) = (sound, sound.isLocked ? .locked : .live)
    case .expired(let sound): (header, state) = (sound, .expired)
    case .broken: return nil
    }
    self.digest = digest
    packed = nil
  }

  init?(_ found: PackedFinding, digest: UInt64, by judge: RecordJudge) {
    let header = found.recordHeader(nameDigest: digest)
    fileSize = header.fileByteCount
    fileState = found.fileState
    switch judge.judge(StoredHeader(header), RecordFacts(fileSize: fileSize, nameDigest: digest)) {
    case .sound(let sound): (self.header, state) = (sound, sound.isLocked ? .locked : .live)
    case .expired(let sound): (self.header, state) = (sound, .expired)
    case .broken: return nil
    }
    self.digest = digest
    packed = found.entry
  }
}
