import BlobRecord
import BlobStore
import CRawFiles
import Foundation
import Measuring
import SystemPackage
import Workbench

/// Measures how much time a change saves because a stripe is locked by a word in memory and not by a file's byte.
///
/// A change of an exclusive store locks no stripe that other processes see, so the additional time of a shared store
/// is the cost of the word. The byte locks represent the former design, in which lock and unlock each take a stripe.
struct LockCosts {
  private static let operations = 200

  private let shared, exclusive: BlobStore
  private let byteLocks: FilePath
  private let rounds: Int
  private let keys = PackPlan.keys(from: 0, count: operations)

  init(_ plan: PackPlan) throws {
    func store(_ name: String, _ sharing: BlobStore.Sharing) throws -> BlobStore {
      var configuration = PackPlan.configuration(isPacked: false)
      configuration.access.sharing = sharing
      return try BlobStore(directory: plan.directory.appending(name), configuration: configuration)
    }
    shared = try store("lock-shared", .shared)
    exclusive = try store("lock-exclusive", .exclusive)
    byteLocks = plan.directory.appending("lock-bytes")
    rounds = plan.rounds
  }

  func measured() throws -> [PackFigure] {
    for store in [shared, exclusive] {
      for key in keys { try store.store(PackPlan.payload, for: key, ttl: .seconds(Int64.max)) }
    }
    let file = open(byteLocks.string, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
    try BenchmarkFailure.check(file, "opening \(byteLocks)")
    defer { _ = raw_close(file) }
    guard raw_lock_bytes(file, 1) == 0 else {
      try BenchmarkFailure.require(errno == ENOSYS, "locking a byte: \(Errno(rawValue: errno))")
      return []
    }
    var times: [[Double]] = [[], [], []]
    for round in 0...rounds {
      for index in turns(of: times.count, in: round) {
        let duration = try processorTime {
          switch index {
          case 0: try lockAndUnlock(shared)
          case 1: try lockAndUnlock(exclusive)
          default: try BenchmarkFailure.check(raw_lock_bytes(file, 2 * Self.operations), "locking bytes")
          }
        }
        if round > 0 { times[index].append(duration / Double(Self.operations)) }
      }
    }
    let words = zip(times[0], times[1]).map { $0 - $1 }
    return [
      PackFigure(
        "lockSpared", "lock and unlock of a record in a file, less than with byte locks",
        zip(times[2], words).map { $0 - $1 }, "us"),
      PackFigure("lockAndUnlock", "lock and unlock of a record in a file", times[0], "us"),
      PackFigure("lockWords", "of that for two stripes", words, "us"),
      PackFigure("lockBytes", "the calls of two byte locks, in C", times[2], "us"),
    ]
  }

  /// Returns the thread's processor time in microseconds, which excludes other load on the disk.
  private func processorTime(_ work: () throws -> Void) throws -> Double {
    var result = Result<Void, any Error>.success(())
    let nanoseconds = ThreadTime.measure { result = Result { try work() } }
    try result.get()
    return nanoseconds / 1000
  }

  private func lockAndUnlock(_ store: BlobStore) throws {
    for key in keys {
      let outcomes = (try store.lock(key), try store.unlock(key))
      try BenchmarkFailure.require(outcomes == (.done, .done), "lock and unlock of \(key): \(outcomes)")
    }
  }
}
