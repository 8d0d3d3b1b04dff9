internal import BlobCache
internal import BlobRecord
internal import BlobStore
internal import Locks

/// Verifies all records one after the other, so that it ends with the cache and other scans can make progress.
final class Verification: Sendable {
  struct Progress: Sendable {
    fileprivate(set) var began: UnixTime
    fileprivate(set) var soundRecords: Int64 = 0
    fileprivate(set) var bytes: Int64 = 0
    fileprivate(set) var badFiles: Int64 = 0
    fileprivate(set) var firstBad: [RecordRow] = []
    fileprivate(set) var isOver = false
    fileprivate(set) var failure: String?
  }

  private let progress = Lock<Progress?>(nil)
  private static let mostShown = 200
  private static let pageSize = 64

  var latest: Progress? { progress.withLock { $0 } }

  func begin(_ cache: BlobCache) {
    let isNew = progress.withLock { progress in
      if let progress, !progress.isOver, progress.failure == nil { return false }
      progress = Progress(began: cache.configuration.store.now())
      return true
    }
    guard isNew else { return }
    Task {
      do {
        var position: WalkPosition? = .start
        while let start = position {
          let page = try await cache.page(prefix: "", from: start, limit: Self.pageSize) { _ in true }
          for entry in page.entries { try await self.verify(entry, of: cache) }
          position = page.next
        }
        progress.withLock { $0?.isOver = true }
      } catch {
        progress.withLock { $0?.failure = Refusal(error).message }
      }
    }
  }

  private func verify(_ entry: RecordEntry, of cache: BlobCache) async throws {
    var row = RecordRow(entry, useCount: nil)
    if [.live, .locked, .expired].contains(entry.state) {
      do {
        // `nil` if the record was removed since it was listed.
        guard let found = try await cache.inspect(entry, checkingUpTo: .max) else { return }
        row = RecordRow(entry, useCount: nil, found: found)
      } catch let error as BlobStoreError where error.errno == .noSuchFileOrDirectory {
        return
      }
    }
    // The writer has not completed the record.
    guard row.state != .streaming else { return }
    add(row, byteCount: entry.fileSize)
  }

  private func add(_ row: RecordRow, byteCount: Int64) {
    let isBad = [.damaged, .unreadable].contains(row.state)
    progress.withLock { progress in
      progress?.bytes.saturatingAdd(byteCount)
      guard isBad else {
        progress?.soundRecords += 1
        return
      }
      progress?.badFiles += 1
      if (progress?.firstBad.count ?? 0) < Self.mostShown { progress?.firstBad.append(row) }
    }
  }
}
