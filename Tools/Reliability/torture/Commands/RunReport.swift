internal import Foundation

/// The options and results of a run.
struct RunReport: Codable {
  var type = "torture"
  var seed: UInt64
  var plant: String?
  var operations = 0
  /// The number of loads, headers and contains.
  var reads = 0
  /// The number of loads from memory.
  var memoryHits = 0
  /// The number of loads that a read without waiting answered with a blob.
  var looks = 0
  /// The number of reads without a record.
  var misses = 0
  /// The number of blobs that were visible while they were written.
  var streams = 0
  /// The number of followers that have read a complete blob.
  var followed = 0
  /// The number of followers whose writer discarded the blob or was killed.
  var broken = 0
  /// The number of followers that timed out.
  var stalled = 0
  /// The number of operations that a kill interrupted.
  var pending = 0
  var kills = 0
  var stops = 0
  var collections = 0
  /// The number of expired records that collections removed.
  var expired = 0
  /// The number of records that collections evicted.
  var evicted = 0
  /// The number of times that the index of the packs grew.
  var growths = 0
  /// The number of chunks of the packs that were reused.
  var reusedChunks = 0
  var seconds = 0.0
  var checkSeconds = 0.0
  /// The longest operation of a worker, in milliseconds.
  var longestMilliseconds = 0.0
  var violations = 0

  func write() throws {
    let encoder = JSONEncoder()
    encoder.outputFormatting = .sortedKeys
    print(String(decoding: try encoder.encode(self), as: UTF8.self))
  }
}
