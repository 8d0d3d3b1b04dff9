import Foundation

/// A promise: how much longer than a peer the store may take, with one thread.
struct Limit: Decodable {
  let work: String
  let peer: String
  /// Payload sizes in bytes that it is for; nil for all.
  let fromBytes, toBytes: Int?
  /// The largest median ratio; of `disk`, the store's bytes on disk per byte.
  let maximum: Double

  static func read(from path: String) throws -> [Limit] {
    try JSONDecoder().decode([Limit].self, from: Data(contentsOf: URL(fileURLWithPath: path)))
  }

  func applies(to place: Place, _ peer: Peer) -> Bool {
    work == place.work.rawValue && self.peer == peer.rawValue && place.threads == 1
      && (fromBytes ?? 0)...(toBytes ?? .max) ~= place.bytes
  }
}
