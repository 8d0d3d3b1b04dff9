internal import Foundation

/// A fault that Tools/fuzz plants in a run of its own, to see that the target finds it.
public enum PlantedBug: String, Sendable {
  /// A header whose crc is wrong is taken all the same.
  case skipsHeaderCRC
  /// A record whose payload is not what its header says is loaded all the same.
  case trustsPayload
  /// A packed record that is marked as dead is loaded all the same.
  case raisesTheDead
  /// A leading dot of a key is not escaped.
  case leavesDots
  /// A number may have a sign.
  case acceptsSigns
  /// Escapes of a target are a part of the key.
  case keepsEscapes

  public static let active: PlantedBug? = {
    guard let name = ProcessInfo.processInfo.environment["BLOBCACHE_FUZZ_PLANT"] else { return nil }
    guard let bug = PlantedBug(rawValue: name) else { violated("there is no planted bug \(name)") }
    return bug
  }()
}
