import Foundation

/// A promise that limits the ratio of the store's time to a peer's time, with one thread.
struct Limit: Decodable {
  let work: String
  let peer: String
  /// The peer whose time is limited, such as `packs`, or `nil` for the store without packs.
  let subject: String?
  /// The range of payload sizes in bytes, or `nil` for all sizes.
  let fromBytes, toBytes: Int?
  /// The maximum median ratio. For `disk`, the maximum bytes on disk per stored byte.
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
