internal import ArgumentParser
internal import BlobRecord
internal import BlobStore
internal import SystemPackage
internal import TextFormats

struct UsageCommand: DirectorySubcommand {
  static let configuration = CommandConfiguration(
    commandName: "usage", abstract: "Print how many records the directory holds, and how many bytes.",
    discussion: "Bytes include headers.")

  static let examples = [
    Example("How full a cache is, by a look at each record", "blobcache usage cache"),
    Example("The same at once, by the counters that programs keep", "blobcache usage cache --fast"),
  ]

  @Argument(help: ArgumentHelp("The cache's directory.", valueName: "dir"))
  var directory: FilePath

  @Flag(
    help: "Print what the directory's counters say, without looking at a record; exit status 1 if they are not known.")
  var fast = false

  @OptionGroup var options: DirectoryOptions

  func answer(_ output: inout Output) throws -> Answer {
    guard !fast else { return try estimate(&output) }
    let store = try options.store(at: directory)
    let usage = try store.usage()
    if options.json {
      output.line(JSONObject(usage, try store.statistics()))
    } else {
      for line in Self.lines(usage) { output.line(line) }
    }
    if !options.quiet, let text = usage.foreignRecords.changeOfOwner(of: directory, beside: usage.records) {
      StandardError.report(text)
    }
    guard usage.unreadableFiles > 0 else {
      let isEmpty =
        usage.records == 0 && usage.damagedFiles == 0 && usage.bytes == 0 && usage.temporaryFiles == 0
        && usage.foreignRecords.files == 0
      return isEmpty ? WrongDirectory.answer(directory, options) : .done
    }
    StandardError.report(
      "\(directory): \(usage.unreadableFiles) files or directories could not be read; `blobcache verify \(directory)` names them"
    )
    ChangeOfOwner.report(directory)
    return .failed
  }

  private func estimate(_ output: inout Output) throws -> Answer {
    let store = try options.store(at: directory)
    var estimate = try store.usageEstimate()
    if estimate == nil {
      // Counting the records determines the counters, so the next estimate needs no count.
      _ = try store.usage()
      estimate = try store.usageEstimate()
    }
    guard let usage = estimate else {
      StandardError.report(
        "\(directory): the counters are not known, because no program of this version has changed the directory, or "
          + "its file system shares no memory, as NFS does; `usage` without --fast counts the records")
      return .no
    }
    if options.json {
      var object = JSONObject(type: "usageEstimate")
      object.add("records", usage.records)
      object.add("bytes", usage.bytes)
      object.add("lockedRecords", usage.lockedRecords)
      object.add("lockedBytes", usage.lockedBytes)
      output.line(object)
    } else {
      output.line("records  \(usage.records)  \(ByteCount(usage.bytes))")
      output.line("locked   \(usage.lockedRecords)  \(ByteCount(usage.lockedBytes))")
    }
    return .done
  }

  private static func lines(_ usage: BlobStore.Usage) -> [String] {
    let rows: [(name: String, count: Int64?, bytes: Int64?)] = [
      ("records", usage.records, usage.recordBytes),
      ("  packed", usage.packedRecords, usage.packedBytes), ("  locked", usage.lockedRecords, usage.lockedBytes),
      ("  expired", usage.expiredRecords, usage.expiredBytes),
      ("damaged files", usage.damagedFiles, usage.damagedBytes),
      ("quarantined files", usage.quarantinedFiles, usage.quarantinedBytes),
      ("recycled files", usage.recycledFiles, usage.recycledBytes),
      ("temporary files", usage.temporaryFiles, usage.temporaryBytes), ("foreign files", usage.foreignFiles, nil),
      ("  others' records", usage.foreignRecords.files, usage.foreignRecords.bytes),
      ("packs on medium", usage.packs.packs, usage.packs.mediumBytes), ("  dead in them", nil, usage.packs.deadBytes),
      ("all bytes", usage.bytes, usage.bytes),
    ]
    return rows.map { row in
      let bytes = row.bytes.map { "  " + ByteCount($0).description.padded(to: 9, .right) } ?? ""
      return row.name.padded(to: 17) + "  " + (row.count.map { String($0) } ?? "").padded(to: 12, .right) + bytes
    }
  }
}

extension BlobStore.Usage {
  /// The bytes of records, without damaged, quarantined and recycled files.
  ///
  /// Saturated at zero, because a sum that saturated at the maximum can be less than its parts.
  fileprivate var recordBytes: Int64 {
    let others = damagedBytes.saturatingAdding(quarantinedBytes).saturatingAdding(recycledBytes)
    return max(0, bytes.saturatingSubtracting(others))
  }
}

extension JSONObject {
  fileprivate init(_ usage: BlobStore.Usage, _ statistics: BlobStore.CollectionStatistics) {
    self.init(type: "usage")
    add("records", usage.records)
    add("bytes", usage.bytes)
    add("lockedRecords", usage.lockedRecords)
    add("lockedBytes", usage.lockedBytes)
    add("expiredRecords", usage.expiredRecords)
    add("damagedFiles", usage.damagedFiles)
    add("temporaryFiles", usage.temporaryFiles)
    add("foreignFiles", usage.foreignFiles)
    add("expiredBytes", usage.expiredBytes)
    add("damagedBytes", usage.damagedBytes)
    add("quarantinedFiles", usage.quarantinedFiles)
    add("quarantinedBytes", usage.quarantinedBytes)
    add("unreadableFiles", usage.unreadableFiles)
    add("collections", statistics.passes)
    add("evictions", statistics.evictions)
    add("collectedExpired", statistics.expired)
    add("collectedEvicted", statistics.evicted)
    add("collectedDamaged", statistics.damaged)
    add("collectedTemporary", statistics.temporary)
    add("collectedBytes", statistics.bytesFreed)
    add("collectionSeconds", seconds: statistics.seconds)
    add("lastCollectionAt", statistics.lastPass?.time.seconds)
    add("lastCollectionBy", statistics.lastPass?.process)
    add("recycledFiles", usage.recycledFiles)
    add("recycledBytes", usage.recycledBytes)
    add(usage.foreignRecords)
    add("temporaryBytes", usage.temporaryBytes)
    add("packedRecords", usage.packedRecords)
    add("packedBytes", usage.packedBytes)
    add("packs", usage.packs.packs)
    add("packMediumBytes", usage.packs.mediumBytes)
    add("packLiveBytes", usage.packs.liveBytes)
    add("packDeadBytes", usage.packs.deadBytes)
  }
}
