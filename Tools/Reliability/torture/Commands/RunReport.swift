internal import Foundation

/// What a run was, and what it found.
struct RunReport: Codable {
  var type = "torture"
  var seed: UInt64
  var plant: String?
  var operations = 0
  /// Loads, headers and contains.
  var reads = 0
  /// Loads that memory answered.
  var memoryHits = 0
  /// Loads that a look without waiting has answered with a blob.
  var looks = 0
  /// Reads that found no record.
  var misses = 0
  /// Blobs that were written to be read meanwhile.
  var streams = 0
  /// Followers that have read a blob to its end.
  var followed = 0
  /// Followers whose writer has given up, or was killed.
  var broken = 0
  /// Followers for which a writer was too slow.
  var stalled = 0
  /// Operations that a kill cut off.
  var pending = 0
  var kills = 0
  var stops = 0
  var collections = 0
  /// Records that collections removed.
  var expired = 0
  /// Records that collections removed to keep the size limit.
  var evicted = 0
  /// How often the index of the packs has become larger.
  var growths = 0
  /// Chunks of the packs that were used anew.
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
