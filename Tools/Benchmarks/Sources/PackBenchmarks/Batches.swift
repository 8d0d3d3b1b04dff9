import BlobStore
import Foundation
import Workbench

/// Compares stores of new keys in batches with individual stores.
struct Batches {
  private static let blobsPerBatch = 256
  private static let batches = 8

  private let store: BlobStore
  private let rounds: Int

  init(_ plan: PackPlan) throws {
    store = try BlobStore(directory: plan.directory.appending("batches"), configuration: PackPlan.configuration())
    rounds = plan.rounds
  }

  func measured() throws -> [PackFigure] {
    var times: [[Double]] = [[], []]
    for round in 0...rounds {
      for index in turns(of: 2, in: round) {
        let blobs = Self.blobs((2 * round + index) * Self.batches * Self.blobsPerBatch)
        let duration = try time { try index == 0 ? storeTogether(blobs) : storeEach(blobs) }
        // The first round creates the files that later rounds reuse.
        if round > 0 { times[index].append(duration / Double(blobs.count)) }
      }
    }
    return [
      PackFigure("batch", "store in a batch of 256, to one alone", zip(times[0], times[1]).map { $0 / $1 }),
      PackFigure("batchStore", "store in a batch", times[0], "us"),
      PackFigure("singleStore", "store alone", times[1], "us"),
    ]
  }

  private static func blobs(_ first: Int) -> [(key: BlobKey, payload: Data)] {
    PackPlan.keys(from: first, count: batches * blobsPerBatch).map { ($0, PackPlan.payload) }
  }

  private func storeTogether(_ blobs: [(key: BlobKey, payload: Data)]) throws {
    for result in store.store(blobs) { _ = try result.result.get() }
  }

  private func storeEach(_ blobs: [(key: BlobKey, payload: Data)]) throws {
    for blob in blobs { try store.store(blob.payload, for: blob.key) }
  }
}
