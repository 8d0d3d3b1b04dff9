extension PackRecords {
  /// Returns the approximate number of packed records.
  func recordCount() throws -> Int64 {
    try chunks().reduce(0) { $0.saturatingAdding(Int64(max(0, $1.entry.liveRecordCount))) }
  }

  /// Returns the address before which a share (0 to below 1) of the records is stored. Reads one cache line per chunk.
  func address(atShare share: Double) throws -> PackAddress {
    var left = share * Double(try recordCount())
    for (start, entry) in try chunks() {
      let count = Double(max(0, entry.liveRecordCount))
      guard left >= count else {
        // The records of a chunk have about the same size.
        let offset = Int(left / count * Double(entry.end)) / PackLayout.recordAlignment
        return PackAddress(rawValue: start.rawValue + UInt64(offset))
      }
      left -= count
    }
    return PackAddress(rawValue: 0)
  }

  private func chunks() throws -> [(start: PackAddress, entry: ChunkEntry)] {
    try packs.files.all().flatMap { pack in
      (0..<PackLayout.chunkCount).compactMap { chunk in
        let entry = pack.entry(ofChunk: chunk)
        guard entry.state.kind != .free else { return nil }
        return (PackAddress(pack: pack.number, chunk: chunk, offset: 0), entry)
      }
    }
  }
}
