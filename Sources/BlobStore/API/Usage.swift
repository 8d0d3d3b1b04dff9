internal import Logging
internal import Posix

extension BlobStore {
  /// What a directory holds. Bytes are logical: headers and payloads, not blocks.
  public struct Usage: Hashable, Sendable {
    /// Records with a sound header: live, locked and expired.
    public var records: Int64 = 0
    /// Their bytes, and those of damaged, quarantined and recycled files.
    public var bytes: Int64 = 0
    public var lockedRecords: Int64 = 0
    public var lockedBytes: Int64 = 0
    public var expiredRecords: Int64 = 0
    public var expiredBytes: Int64 = 0
    public var damagedFiles: Int64 = 0
    public var damagedBytes: Int64 = 0
    public var quarantinedFiles: Int64 = 0
    public var quarantinedBytes: Int64 = 0
    /// The files of dead records that wait to be overwritten.
    public var recycledFiles: Int64 = 0
    public var recycledBytes: Int64 = 0
    /// Records in the making, and what writers that died have left.
    public var temporaryFiles: Int64 = 0
    /// Their bytes: in no other number.
    public var temporaryBytes: Int64 = 0
    /// What is not ours; its bytes count nowhere.
    public var foreignFiles: Int64 = 0
    /// Foreign files that are not records only because they are another user's.
    public var foreignRecords = ForeignRecords()
    /// Files and subdirectories that could not be read; not in the other numbers.
    public var unreadableFiles: Int64 = 0

    public init() {}

    mutating func add(_ state: RecordState, byteCount: Int64) {
      guard state != .unreadable else {
        unreadableFiles += 1
        return
      }
      bytes.saturatingAdd(byteCount)
      switch state {
      case .damaged:
        damagedFiles += 1
        damagedBytes.saturatingAdd(byteCount)
        return
      case .locked:
        lockedRecords += 1
        lockedBytes.saturatingAdd(byteCount)
      case .expired:
        expiredRecords += 1
        expiredBytes.saturatingAdd(byteCount)
      case .live, .unreadable: break
      }
      records += 1
    }
  }
}

extension BlobStore {
  /// Counts what the directory holds, and changes nothing. What cannot be read is logged, and counted as such.
  ///
  /// - Complexity: a walk over all records, four system calls each.
  public func usage() throws(BlobStoreError) -> Usage {
    try reporting("usage") { try core.usage() }
  }
}

extension StoreCore {
  fileprivate func usage() throws -> BlobStore.Usage {
    var usage = BlobStore.Usage()
    guard let walk = try walk() else { return usage }
    walk.skim = {
      usage.add($0.state, byteCount: $0.fileSize)
      return true
    }
    while let item = try walk.next() {
      switch item {
      case .record(let entry):
        usage.add(entry.state, byteCount: entry.fileSize)
        if let error = entry.accessError { configuration.logger.warning("\(error)") }
      case .temporary(let name):
        usage.temporaryFiles += 1
        // One that is gone by now, or whose status cannot be read, is a file of no bytes.
        let status = walk.withCurrentDirectory { try? $0.status(of: name) }
        usage.temporaryBytes.saturatingAdd(status.flatMap { $0 }?.size ?? 0)
      case .foreign: usage.foreignFiles += 1
      case .foreignRecord(let record):
        usage.foreignFiles += 1
        usage.foreignRecords.add(record)
      case .endOfSubdirectory: break
      }
    }
    do {
      for file in try quarantine()?.files() ?? [] {
        usage.quarantinedFiles += 1
        usage.quarantinedBytes.saturatingAdd(file.byteCount)
        usage.bytes.saturatingAdd(file.byteCount)
      }
    } catch let error as FileError {
      configuration.logger.warning("\(BlobStoreError(error, operation: "usage", key: nil))")
      usage.unreadableFiles += 1
    }
    do {
      if let open = try root.opened(), let bin = try open.recyclingBin(makesIt: false) {
        (usage.recycledFiles, usage.recycledBytes) = try bin.contents(of: open.ownership)
        usage.bytes.saturatingAdd(usage.recycledBytes)
      }
    } catch let error as FileError {
      configuration.logger.warning("\(BlobStoreError(error, operation: "usage", key: nil))")
      usage.unreadableFiles += 1
    }
    return usage
  }
}
