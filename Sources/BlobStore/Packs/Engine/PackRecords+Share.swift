extension PackRecords {
  /// How many records are packed, about.
  func recordCount() throws -> Int64 {
    try chunks().reduce(0) { $0.saturatingAdding(Int64(max(0, $1.entry.liveRecordCount))) }
  }

  /// The address before which about this share of all records lies, from 0 up to 1.
  ///
  /// - Complexity: a cache line for each chunk.
  func address(atShare share: Double) throws -> PackAddress {
    var left = share * Double(try recordCount())
    for (start, entry) in try chunks() {
      let count = Double(max(0, entry.liveRecordCount))
      guard left >= count else {
        // Records of a chunk are of one size, about.
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
