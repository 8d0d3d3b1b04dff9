import BlobStore
import Testing

/// The code agrees with Spec/ControlFile.md.
@Suite struct ControlFileFormatTests {
  /// Returns the offset and size of the rows of those tables whose third column is a name.
  static func rows() throws -> [String: (offset: Int, size: Int)] {
    var rows: [String: (offset: Int, size: Int)] = [:]
    for line in try Specification.text("ControlFile.md").split(separator: "\n") where line.hasPrefix("| ") {
      let columns = line.split(separator: "|", omittingEmptySubsequences: false).dropFirst().map {
        $0.trimmingPrefix { $0 == " " }.prefix { $0 != " " }
      }
      guard columns.count >= 3, let offset = Int(columns[0]), let size = Int(columns[1]) else { continue }
      rows[String(columns[2].isEmpty ? "gap at \(offset)" : columns[2])] = (offset, size)
    }
    return rows
  }

  @Test(
    arguments: [
      ("magic", ControlLayout.magicOffset), ("version", ControlLayout.versionOffset),
      ("generationBase", ControlLayout.generationBaseOffset),
      ("countersAreKnown", ControlLayout.countersAreKnownOffset),
      ("records", ControlLayout.Counter.records.present), ("bytes", ControlLayout.Counter.bytes.present),
      ("lockedRecords", ControlLayout.Counter.lockedRecords.present),
      ("lockedBytes", ControlLayout.Counter.lockedBytes.present),
      ("addedRecords", ControlLayout.Counter.records.added), ("addedBytes", ControlLayout.Counter.bytes.added),
      ("addedLockedRecords", ControlLayout.Counter.lockedRecords.added),
      ("addedLockedBytes", ControlLayout.Counter.lockedBytes.added),
      ("passes", ControlLayout.passesOffset), ("evictions", ControlLayout.evictionsOffset),
      ("expired", ControlLayout.expiredOffset), ("evicted", ControlLayout.evictedOffset),
      ("damaged", ControlLayout.damagedOffset), ("temporary", ControlLayout.temporaryOffset),
      ("bytesFreed", ControlLayout.bytesFreedOffset), ("milliseconds", ControlLayout.millisecondsOffset),
      ("lastPassTime", ControlLayout.lastPassTimeOffset), ("lastPassProcess", ControlLayout.lastPassProcessOffset),
      ("lastPassMilliseconds", ControlLayout.lastPassMillisecondsOffset),
      ("lastWholePassTime", ControlLayout.lastWholePassTimeOffset),
      ("collectorProcess", ControlLayout.collectorProcessOffset), ("nextName", ControlLayout.nextNameOffset),
      ("recycledFiles", ControlLayout.recycledFilesOffset), ("recycledBytes", ControlLayout.recycledBytesOffset),
      ("durableChanges", ControlLayout.durableChangesOffset), ("wipes", ControlLayout.wipesOffset),
      ("usesNumber", ControlLayout.usesNumberOffset), ("countedSince", ControlLayout.countedSinceOffset),
      ("evictedForSizeLimit", ControlLayout.evictedForOffsets[0]),
      ("evictedForCountLimit", ControlLayout.evictedForOffsets[1]),
      ("evictedForFreeSpace", ControlLayout.evictedForOffsets[2]),
      ("evictedByTrims", ControlLayout.evictedForOffsets[3]), ("evictedAge", ControlLayout.evictedAgeOffset),
      ("evictedAged", ControlLayout.evictedAgedOffset), ("nextInode", ControlLayout.nextInodeOffset),
      ("nextOffset", ControlLayout.nextOffsetOffset), ("remoteTraffic", ControlLayout.remoteTrafficOffset),
      ("traffic", ControlLayout.trafficOffset), ("packIndex", ControlLayout.packIndexOffset),
      ("packSequence", ControlLayout.packSequenceOffset),
      ("packs", Int(ControlLayout.packByte.lowerBound)), ("pages", Int(ControlLayout.fillingByte.lowerBound)),
      ("secret", ControlLayout.secretOffset),
      ("notedPasses", ControlLayout.passesNotedOffset),
      ("generations", ControlLayout.generationsOffset), ("marks", ControlLayout.marksOffset),
      ("stripes", Int(ControlLayout.stripeBytes.lowerBound)),
      ("collector", Int(ControlLayout.collectorByte)), ("productions", Int(ControlLayout.productionOffset)),
      ("sessions", ControlLayout.sessionsOffset), ("stripeWords", ControlLayout.stripesOffset),
      ("sessionBytes", Int(ControlLayout.sessionByteOffset)),
    ])
  func offsetsAreTheDocumentedOnes(field: String, offset: Int) throws {
    let row = try #require(try Self.rows()[field])
    #expect(row.offset == offset)
  }

  @Test func sizesAreTheDocumentedOnes() throws {
    let text = try Specification.text("ControlFile.md")
    let rows = try Self.rows()
    #expect(text.contains("has \(ControlLayout.byteCount) bytes"))
    #expect(text.contains("0x" + hexadecimal(ControlLayout.magic)))
    #expect(rows["generations"]?.size == 4 * ControlLayout.generationCount)
    #expect(rows["marks"]?.size == ControlLayout.markByteCount * ControlLayout.markCount)
    #expect(rows["stripes"]?.size == ControlLayout.stripeBytes.count)
    #expect(rows["productions"]?.size == ControlLayout.stripeCount)
    #expect(rows["sessions"]?.size == ControlLayout.sessionByteCount * ControlLayout.sessionCount)
    #expect(rows["stripeWords"]?.size == ControlLayout.stripeByteCount * ControlLayout.stripeCount)
    #expect(rows["sessionBytes"]?.size == ControlLayout.sessionCount)
    #expect(ControlLayout.generationCount % ControlLayout.stripeCount == 0)
    #expect(ControlLayout.lockedBytes == 0..<4097)
  }

  /// The fields are adjacent, except for documented gaps.
  @Test func theLayoutIsWhole() throws {
    let fields = try Self.rows().filter {
      !["stripes", "collector", "packs", "pages", "productions", "sessionBytes"].contains($0.key)
    }
    .values.sorted {
      $0.offset < $1.offset
    }
    var end = 0
    for field in fields {
      #expect(field.offset == end)
      end = field.offset + field.size
    }
    #expect(end == ControlLayout.byteCount)
  }

  @Test(arguments: [UInt64(0), 1, 4095, 4096, 65_536, 1_048_575, 1_048_576, .max])
  func aDigestHasTheDocumentedStripeAndGeneration(digest: UInt64) {
    #expect(ControlLayout.stripeByte(of: digest).lowerBound == Int64(digest % 4096))
    #expect(ControlLayout.generationOffset(of: digest) == 4096 + 4 * Int(digest % 1_048_576))
  }

  private func hexadecimal(_ value: UInt64) -> String {
    let digits = String(value, radix: 16, uppercase: true)
    return String(repeating: "0", count: 16 - digits.count) + digits
  }
}
