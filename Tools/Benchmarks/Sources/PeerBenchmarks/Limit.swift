import Foundation

/// A promise: how much longer than a peer the store may take, with one thread.
struct Limit: Decodable {
  let work: String
  let peer: String
  /// Whose promise it is: `packs`; nil for that of the store without.
  let subject: String?
  /// Payload sizes in bytes that it is for; nil for all.
  let fromBytes, toBytes: Int?
  /// The largest median ratio; of `disk`, the store's bytes on disk per byte.
  let maximum: Double

  static func read(from path: String) throws -> [Limit] {
    try JSONDecoder().decode([Limit].self, from: Data(contentsOf: URL(fileURLWithPath: path)))
  }

  func applies(to place: Place, _ peer: Peer, of subject: Peer) -> Bool {
    (self.subject ?? Peer.blobStore.rawValue) == subject.rawValue && work == place.work.rawValue
      && self.peer == peer.rawValue && place.threads == 1
      && (fromBytes ?? 0)...(toBytes ?? .max) ~= place.bytes
  }
}
