internal import BlobRecord
internal import Logging
internal import Posix

/// Records that are published before they are complete.
extension Publisher {
  /// Completes a record that was published before its payload. It is synced before and after the final header is
  /// written, as far as the durability requires it.
  ///
  /// - Parameter stream: The header with which the record was published.
  /// - Throws: `superseded` if the record was superseded; `Published` if it is complete but a sync has failed.
  func complete(_ placed: borrowing PlacedDraft, from stream: RecordHeader, to header: RecordHeader) throws {
    let path = placed.path
    let level = core.configuration.durability.level(concernsLock: header.isLocked)
    var pending = pendingStore(header, locks: .none, if: nil)
    var wait: LimitEnforcer.Wait?
    defer { enforcer?.stopAsking(wait) }
    try placed.draft.synchronize(level)
    enforcer?.willStore(path.digest)
    while true {
      pending.stopWaiting = stopWaiting(wait)
      switch try complete(placed, from: stream, pending) {
      case .superseded: throw BlobStoreError(.superseded, "the key was stored or removed while the blob was written")
      case .mustWait(let usage): try enforcer?.waitForRoom(&wait, usage, for: header.fileByteCount)
      case .done(let usage):
        didStore(header, at: path, of: placed.root, exceeding: usage)
        guard level == .full else { return }
        return try afterPublication {
          try placed.draft.synchronize(level)
          try placed.draft.synchronizeName(at: path, of: placed.root)
        }
      }
    }
  }

  private func complete(
    _ placed: borrowing PlacedDraft, from stream: RecordHeader, _ pending: borrowing PendingStore
  ) throws -> KeyTransaction.Completion {
    let hold = try Records(core).hold(placed.path.digest)
    var transaction = KeyTransaction(placed.path, in: placed.root, Records(core), hold)
    return try transaction.complete(placed.draft, from: stream, pending)
  }

  /// Rewrites an incomplete record's header under the key's hold. Readers that find damage read the header again under
  /// the hold before they report it.
  func rewrite(_ placed: borrowing PlacedDraft, to header: RecordHeader) throws {
    let hold = try Records(core).hold(placed.path.digest)
    try KeyTransaction(placed.path, in: placed.root, Records(core), hold).rewriteStream(placed.draft, to: header)
  }

  /// Removes an incomplete record. A collection removes it if this fails, because its writer no longer exists.
  func withdraw(_ placed: borrowing PlacedDraft) {
    do {
      let hold = try Records(core).hold(placed.path.digest)
      // If the directory was replaced, its counters do not include the record.
      guard let open = try core.root.opened(), open.ownership.isSameDirectory(as: placed.root.ownership) else { return }
      var transaction = KeyTransaction(placed.path, in: placed.root, Records(core), hold)
      try transaction.withdrawStream(placed.draft)
    } catch {
      core.configuration.logger.debug("a stream is left: \(BlobStoreError(error, operation: "store", key: nil))")
    }
  }
}
