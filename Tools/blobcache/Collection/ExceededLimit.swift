internal import BlobStore

/// A limit that is exceeded after a pass, and the reason.
struct ExceededLimit {
  let text: String

  /// - Returns: The exceeded limit, or `nil` if the pass was stopped or no limit is exceeded.
  init?(_ report: BlobStore.CollectionReport, _ store: BlobStore) {
    guard !report.wasStopped else { return nil }
    let stay = report.dryRun ? "would stay" : "stay"
    let configuration = store.configuration
    // If the counters cannot be read, the text is less specific.
    let usage = try? store.usageEstimate()
    if let limit = configuration.limits.size, report.bytesAfter > limit {
      let locked = usage.map { "\(ByteCount($0.lockedBytes)) in \($0.lockedRecords) locked records" }
      let isLockedAlone = usage.map { $0.lockedBytes > limit } ?? false
      text =
        "\(ByteCount(report.bytesAfter)) \(stay), above the size limit of \(ByteCount(limit)): "
        + Self.cause(locked: locked, isLockedAlone: isLockedAlone, report) + "raise the limit"
    } else if let limit = configuration.limits.count, report.recordsAfter > limit {
      let locked = usage.map { "\($0.lockedRecords) locked records" }
      let isLockedAlone = usage.map { $0.lockedRecords > limit } ?? false
      text =
        "\(report.recordsAfter) records \(stay), above the count limit of \(limit): "
        + Self.cause(locked: locked, isLockedAlone: isLockedAlone, report) + "raise the limit"
    } else {
      return nil
    }
  }

  /// - Parameters:
  ///   - locked: A description of the locked records, if known.
  ///   - isLockedAlone: A Boolean value that indicates whether the locked records exceed the limit by themselves.
  private static func cause(locked: String?, isLockedAlone: Bool, _ report: BlobStore.CollectionReport) -> String {
    if report.failed > 0 { return "\(report.failed) files could not be removed; mend that, or " }
    if isLockedAlone, let locked { return "\(locked) are never evicted; unlock or remove some, or " }
    return "the rest is locked, in quarantine, or was stored meanwhile; collect again, unlock some, or "
  }
}
