internal import BlobRecord
internal import Posix
internal import SystemPackage

// Records of which nothing is allocated.
extension RecordWalk {
  enum Skimmed {
    case done
    case item(Item)
    /// It is something else than a sound record with a plain name, or of interest.
    case toBeMet
  }

  func skimEntry(
    of stream: borrowing DirectoryStream, in directory: borrowing Directory
  ) throws -> Skimmed {
    guard let skim, stream.entryKind == .regular else { return .toBeMet }
    let layout = layout
    let subdirectory = subdirectoryBytes
    let digest = stream.withEntryName { name in
      let digest = NameDigest.digest(ofFileName: name)
      return layout.isPlain(fileName: name, digest: digest, in: subdirectory.span) ? digest : nil
    }
    guard let digest, packs?.records.mayHold(nameDigest: digest) != true else { return .toBeMet }
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
        let glance = unsafe RecordGlance(RawSpan(_unsafeBytes: head[..<byteCount]), status, digest: digest, by: judge)
      else { return .toBeMet }
      return try skim(glance) ? .done : .toBeMet
    }
  }
}

extension Directory {
  /// The status of a file that cannot be read; nil if the system refuses that too.
  func statusOfUnreadable(_ name: String) -> Stat? {
    // Why it cannot be read is reported already.
    (try? status(of: name)) ?? nil
  }
}

extension OpenRoot {
  /// Whether a file that cannot be read may be a record all the same.
  func mayBeRecord(_ status: Stat) -> Bool { status.type == .regular && ownership.owns(status) }
}
