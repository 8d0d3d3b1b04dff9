internal import BlobRecord
internal import Posix

extension RecordWalk {
  var isInPacks: Bool { part != .files }

  /// A Boolean value that indicates whether the walk is at the position of packed records in the order.
  var isAmongPacked: Bool { part == .packs }

  static func isLeft(in packs: PackRecords, _ start: WalkPosition?) throws(FileError) -> Bool {
    guard let start, start.inode != 0, start.digest == OrderedEntries.digestOfPacks else { return false }
    return try packs.directoryNumber == start.inode
  }

  func enterPacks() {
    guard packs != nil else { return }
    part = .packs
    entriesOfSubdirectory = 0
    if goesOnInPacks { hasLeftOutBeginning = true } else { mustSweepPacks = true }
  }

  func nextPacked() throws -> Item? {
    guard let packs else { return nil }
    do {
      while let met = try packs.next() {
        packed = met
        entriesOfSubdirectory += 1
        if let item = try item(for: met, in: packs) { return item }
      }
      return nil
    } catch let error as ChunkFailure {
      // A chunk that cannot be read does not end the walk over the others.
      return .record(RecordEntry(unreadable: packs.file, BlobStoreError(error.cause, operation: "read", key: nil)))
    }
  }

  private func item(for met: PackWalk.Met, in packs: PackWalk) throws -> Item? {
    let prefix = fileNamePrefixBytes
    let (isWanted, isPlain) = packs.withName(of: met) { name in
      (name.starts(with: prefix), layout.isPlain(fileName: name))
    }
    guard isWanted else { return nil }
    if let skim, isPlain, let finding = met.finding,
      let glance = RecordGlance(finding, digest: met.digest, by: judge), try skim(glance)
    {
      return nil
    }
    guard let path = packedPath else {
      return fileNamePrefix.isEmpty ? .foreign(packs.file + "/" + (packs.name(of: met) ?? "")) : nil
    }
    guard let found = try packs.found(met, at: path, by: judge) else { return nil }
    return .record(recordEntry(of: found))
  }

  var packedPath: RecordPath? {
    guard let packs, let packed else { return nil }
    return packs.name(of: packed).flatMap { layout.path(ofFileName: $0) }
  }
}
