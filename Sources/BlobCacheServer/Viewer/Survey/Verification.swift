internal import BlobCache
internal import BlobRecord
internal import BlobStore
internal import Locks

/// A look at every byte of the directory, which goes on while pages tell how far it has come. There is one at a time.
final class Verification: Sendable {
  struct Look: Sendable {
    fileprivate(set) var began: UnixTime
    fileprivate(set) var examined: Int64 = 0
    fileprivate(set) var bytes: Int64 = 0
    /// The first ones that were found.
    fileprivate(set) var damaged: [RecordRow] = []
    fileprivate(set) var report: BlobStore.VerificationReport?
    fileprivate(set) var failure: String?

    var isRunning: Bool { report == nil && failure == nil }
  }

  private let look = Lock<Look?>(nil)
  private static let mostShown = 200

  /// nil before the first one.
  var latest: Look? { look.withLock { $0 } }

  /// Begins one, unless one is running.
  func begin(_ cache: BlobCache) {
    let isNew = look.withLock { look in
      guard look?.isRunning != true else { return false }
      look = Look(began: cache.configuration.store.now())
      return true
    }
    guard isNew else { return }
    Task {
      do {
        let report = try await cache.verify { finding in self.add(finding) }
        look.withLock { $0?.report = report }
      } catch {
        look.withLock { $0?.failure = Refusal(error).message }
      }
    }
  }

  private func add(_ finding: BlobStore.VerificationFinding) {
    guard case .record(let entry) = finding else { return }
    look.withLock { look in
      look?.examined += 1
      look?.bytes += entry.fileSize
      let isBad = entry.state == .damaged || entry.state == .unreadable
      if isBad, (look?.damaged.count ?? 0) < Self.mostShown { look?.damaged.append(RecordRow(entry, useCount: nil)) }
    }
  }
}
