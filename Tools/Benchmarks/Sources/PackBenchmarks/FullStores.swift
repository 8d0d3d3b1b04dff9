import BlobStore
import Foundation
import SystemPackage
import Workbench

/// Compares stores of new keys with durability `full` in a pack and in separate files, and the pack's system calls.
struct FullStores {
  private static let operations = 8

  private let packed, files: BlobStore
  private let floor: SyncedWrites
  private let rounds: Int

  init(_ plan: PackPlan) throws {
    func store(_ name: String, isPacked: Bool) throws -> BlobStore {
      var configuration = PackPlan.configuration(isPacked: isPacked)
      configuration.durability = .full
      return try BlobStore(directory: plan.directory.appending(name), configuration: configuration)
    }
    packed = try store("full-packed", isPacked: true)
    files = try store("full-files", isPacked: false)
    floor = try SyncedWrites(plan.directory.appending("full-floor"), byteCount: PackPlan.logicalByteCount)
    rounds = plan.rounds
  }

  func measured() throws -> [PackFigure] {
    let stores: [(BlobKey) throws -> Void] = [
      { try packed.store(PackPlan.payload, for: $0) }, { try files.store(PackPlan.payload, for: $0) },
      { _ in try floor.write() },
    ]
    var times: [[Double]] = [[], [], []]
    for round in 0...rounds {
      let keys = PackPlan.keys(from: round * Self.operations, count: Self.operations)
      for index in turns(of: stores.count, in: round) {
        let duration = try time { for key in keys { try stores[index](key) } }
        // The first round creates the files that later rounds reuse.
        if round > 0 { times[index].append(duration / Double(Self.operations)) }
      }
    }
    return [
      PackFigure("fullStore", "full store, to one of a file", zip(times[0], times[1]).map { $0 / $1 }),
      PackFigure(
        "fullStoreFloor", "a write and a sync by C, to a full store of a file", zip(times[2], times[1]).map { $0 / $1 }),
      PackFigure("fullStorePacked", "full store", times[0], "us"),
      PackFigure("fullStoreFile", "full store of a file", times[1], "us"),
    ]
  }
}
