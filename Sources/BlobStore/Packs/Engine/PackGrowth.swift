internal import BlobRecord
internal import Posix

/// Enlarges the index of the packs while changes continue: Spec/Models.md, "Growth".
///
/// The caller has locked `packByte` and holds no key. Only a change of the record that is being copied waits.
struct PackGrowth {
  private var records: PackRecords

  /// The number of attempts, because finishing the interrupted change of a dead process aborts the growth.
  private static let mostTries = 4

  init(of records: PackRecords) { self.records = records }

  private var control: ControlFile { records.control }
  private var directory: PackDirectory { records.packs.files.directory }

  /// Returns the new index, which is in force.
  ///
  /// - Throws: `busy` if another process holds a stripe for too long, or if each attempt was aborted.
  /// - Complexity: Reads all chunks in use, and takes the stripe of each record.
  mutating func run() throws -> PackIndex {
    var bucketCount = records.packs.index.grownBucketCount
    for _ in 0..<Self.mostTries {
      let growth = try PackIndexGrowth.begin(
        of: records.packs.index, bucketCount: bucketCount, in: directory, names: records.core.temporaryNames)
      do {
        switch try control.beginGrowth(to: growth.new.number) ? fill(growth) : .isGivenUp {
        case .whole: if try putInForce(growth) { return growth.new }
        case .isFull: bucketCount += max(1, bucketCount / 2)
        case .isGivenUp: break
        }
      } catch {
        try giveUp()
        throw error
      }
      try giveUp()
    }
    throw BlobStoreError(.busy, "it was given up \(Self.mostTries) times", path: records.packs.path)
  }

  private func putInForce(_ growth: PackIndexGrowth) throws -> Bool {
    guard control.endGrowth(to: growth.new.number) else { return false }
    control.settleGrowth()
    // If the process is killed or the rename fails, the next process that creates an index renames the file.
    try PackIndexGrowth.takeName(in: directory)
    return true
  }

  private func giveUp() throws {
    control.settleGrowth()
    // An index that is in force is kept until it has its name.
    if records.packs.isInForce { try PackIndexGrowth.giveUp(in: directory) }
  }

  private enum Filling {
    case whole
    case isFull
    /// A change that was finished for a dead process aborted the growth.
    case isGivenUp
  }

  private mutating func fill(_ growth: PackIndexGrowth) throws -> Filling {
    // Takes each stripe once, so that all changes that started without knowledge of the growth have ended.
    try records.finishAllStripes()
    // A record that moves during the walk is entered in both indexes by its change.
    let walk = try PackWalk(records)
    do {
      while let met = try walk.next() {
        guard isUnderWay(growth) else { return .isGivenUp }
        var hold = try records.core.stripes.hold(met.digest)
        try finish(&hold)
        if growth.copy(met.digest, at: met.address) == .isFull { return .isFull }
      }
    } catch let failure as ChunkFailure {
      throw failure.cause
    }
    return .whole
  }

  private mutating func finish(_ hold: inout KeyHold) throws { try records.finish(&hold) }

  private func isUnderWay(_ growth: PackIndexGrowth) -> Bool {
    control.growingIndex == GrowingIndex(number: growth.new.number, isWhole: false)
  }
}

extension PackRecords {
  /// Enlarges the index if that is due, and returns whether a larger index is in force. No key may be held.
  ///
  /// A failure is only logged, because records for which the index has no room become files.
  func growIfDue() -> Bool {
    guard packs.mayGrow else { return false }
    do {
      return try core.packHolder.withoutOtherMakers(of: packs.files, control) { try grow() } ?? false
    } catch {
      packs.postponeGrowth()
      core.configuration.logger.warning(
        "\(BlobStoreError(error, operation: "enlarge the index of the packs", key: nil))")
      return false
    }
  }

  /// Unlinks a larger index whose process died before it was in force.
  func giveUpDeadGrowth() throws {
    let directory = packs.files.directory
    _ = try core.packHolder.withoutOtherMakers(of: packs.files, control) {
      // An index in force has been renamed by now.
      if packs.isInForce, try packs.index.isCurrent(in: directory) { try PackIndexGrowth.giveUp(in: directory) }
    }
  }

  private func grow() throws -> Bool {
    guard packs.isInForce else { return true }
    guard packs.index.isDueForGrowth else { return false }
    var growth = PackGrowth(of: self)
    core.packHolder.didGrow(Packs(try growth.run(), packs.files, control))
    return true
  }
}
