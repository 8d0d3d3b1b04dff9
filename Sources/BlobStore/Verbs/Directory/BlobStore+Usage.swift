internal import BlobRecord
internal import Logging
internal import Posix
internal import SystemPackage

extension BlobStore {
  /// Counts the content of the directory, and logs and counts unreadable files.
  ///
  /// The result also becomes the directory's counters if these are not known. Nothing else is changed.
  ///
  /// - Complexity: A walk over all records: four system calls for each file, one for each chunk of packed records.
  public func usage() throws(BlobStoreError) -> Usage {
    try withErrorContext("usage") { try Records(core).usage() }
  }

  /// Returns the space that the directory's packs occupy, without reading a record.
  ///
  /// - Complexity: O(*n*) for *n* packs, once they are open.
  public func packUsage() throws(BlobStoreError) -> PackUsage {
    try withErrorContext("packUsage") { try Records(core).packUsage() }
  }

  /// Returns the content of the directory by its counters, which every change updates, without reading a record.
  ///
  /// The counters are known in each directory that this library has created, and elsewhere after the first `usage()`
  /// or complete collection.
  ///
  /// - Returns: The estimate, or `nil` if the counters are unknown or the control file is missing.
  /// - Complexity: O(1).
  public func usageEstimate() throws(BlobStoreError) -> UsageEstimate? {
    try withErrorContext("usageEstimate") { try core.usageEstimate() }
  }
}

extension Records {
  fileprivate func packUsage() throws -> BlobStore.PackUsage {
    var usage = BlobStore.PackUsage()
    guard let open = try core.root.opened(), let packs = try packs(of: open) else { return usage }
    for pack in try packs.packs.files.all() {
      usage.packs += 1
      usage.mediumBytes.saturatingAdd(try pack.mediumByteCount())
      for number in 0..<PackLayout.chunkCount {
        let entry = pack.entry(ofChunk: number)
        guard entry.state.kind != .free else { continue }
        let live = max(0, entry.liveByteCount)
        usage.records += Int64(max(0, entry.liveRecordCount))
        usage.liveBytes += Int64(live)
        usage.deadBytes += Int64(max(0, entry.end - live))
      }
    }
    return usage
  }

  fileprivate func usage() throws -> BlobStore.Usage {
    var usage = BlobStore.Usage()
    guard let walk = try walk() else { return usage }
    let correction = try core.usageEstimate() == nil ? CounterCorrection(of: core) { false } : nil
    var counted = Enumeration()
    walk.skim = {
      usage.add($0.state, byteCount: $0.fileSize, isPacked: $0.isPacked)
      return true
    }
    while let item = try walk.next() {
      switch item {
      case .record(let entry):
        usage.add(entry.state, byteCount: entry.fileSize, isPacked: entry.packed != nil)
        if let error = entry.accessError { core.configuration.logger.warning("\(error)") }
      case .temporary(let name):
        usage.temporaryFiles += 1
        // A file that was removed since, or whose status cannot be read, counts zero bytes.
        let status = walk.withCurrentDirectory { try? $0.status(of: name) }
        usage.temporaryBytes.saturatingAdd(status.flatMap { $0 }?.size ?? 0)
      case .foreign(let file):
        usage.foreignFiles += 1
        counted.noteForeign(file)
      case .foreignRecord(let record):
        usage.foreignFiles += 1
        usage.foreignRecords.add(record)
      case .covered, .endOfSubdirectory: break
      }
    }
    if usage.unreadableFiles == 0 {
      counted.left = BlobStore.UsageEstimate(
        records: usage.records + usage.damagedFiles, bytes: usage.bytes, lockedRecords: usage.lockedRecords,
        lockedBytes: usage.lockedBytes)
      try correction?.apply(counted) { false }
    }
    usage.packs = try packUsage()
    do {
      for file in try quarantine()?.files() ?? [] {
        usage.quarantinedFiles += 1
        usage.quarantinedBytes.saturatingAdd(file.byteCount)
        usage.bytes.saturatingAdd(file.byteCount)
      }
    } catch let error as FileError {
      core.configuration.logger.warning("\(BlobStoreError(error, operation: "usage", key: nil))")
      usage.unreadableFiles += 1
    }
    do {
      if let open = try core.root.opened(), let bin = try open.recyclingBin(makesIt: false) {
        (usage.recycledFiles, usage.recycledBytes) = try bin.contents(of: open.ownership)
        usage.bytes.saturatingAdd(usage.recycledBytes)
      }
    } catch let error as FileError {
      core.configuration.logger.warning("\(BlobStoreError(error, operation: "usage", key: nil))")
      usage.unreadableFiles += 1
    }
    return usage
  }
}
