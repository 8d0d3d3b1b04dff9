internal import BlobRecord
internal import Posix

/// Gives the packs a larger index while changes go on: Spec/Models.md, "Growth".
///
/// The caller has the byte for it, and holds no key. Loads do not wait, and a change waits as long as one record is copied.
struct PackGrowth {
  private var records: PackRecords

  /// A growth that a finisher has given up is begun again so often. Each time, what was unfinished is finished.
  private static let mostTries = 4

  init(of records: PackRecords) { self.records = records }

  private var control: ControlFile { records.control }
  private var directory: PackDirectory { records.packs.files.directory }

  /// - Returns: the new index, which is in force.
  /// - Throws: `busy` where another process has a stripe for too long, or each try was given up.
  /// - Complexity: all chunks in use are read, and each record's stripe is taken.
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
    // Killed before, or after an error, the next one that makes an index gives it the name.
    try PackIndexGrowth.takeName(in: directory)
    return true
  }

  private func giveUp() throws {
    control.settleGrowth()
    // One that is in force stays until it gets its name.
    if records.packs.isInForce { try PackIndexGrowth.giveUp(in: directory) }
  }

  private enum Filling {
    case whole
    /// The new index has no room for one of the records.
    case isFull
    /// A finisher has met it.
    case isGivenUp
  }

  private mutating func fill(_ growth: PackIndexGrowth) throws -> Filling {
    // Each stripe is taken once: a change that has not seen the growth has ended then.
    try records.finishAllStripes()
    // A record that moves meanwhile is led to by its change in both indexes, wherever the walk is.
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
  /// Makes the index larger if that is due, and no other thread or process does so. No key may be held.
  ///
  /// A failure is logged: records that the index has no room for become files.
  ///
  /// - Returns: whether a larger index is in force.
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

  /// Unlinks a larger index whose process has died before it was in force.
  func giveUpDeadGrowth() throws {
    let directory = packs.files.directory
    _ = try core.packHolder.withoutOtherMakers(of: packs.files, control) {
      // One that is in force has its right name by now.
      if packs.isInForce, try packs.index.isCurrent(in: directory) { try PackIndexGrowth.giveUp(in: directory) }
    }
  }

  /// - Returns: whether a larger index is in force.
  private func grow() throws -> Bool {
    guard packs.isInForce else { return true }
    guard packs.index.isDueForGrowth else { return false }
    var growth = PackGrowth(of: self)
    core.packHolder.didGrow(Packs(try growth.run(), packs.files, control))
    return true
  }
}
