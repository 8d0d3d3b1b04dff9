internal import Foundation

/// A fault that Tools/fuzz plants in a separate run to verify that the target detects it.
public enum PlantedBug: String, Sendable {
  /// A header with a wrong crc is accepted.
  case skipsHeaderCRC
  /// A record is loaded although its payload does not match its header.
  case trustsPayload
  /// A packed record is loaded although it is marked as dead.
  case raisesTheDead
  /// A leading dot of a key is not escaped.
  case leavesDots
  /// A number may have a sign.
  case acceptsSigns
  /// Percent escapes in a target are not decoded.
  case keepsEscapes

  public static let active: PlantedBug? = {
    guard let name = ProcessInfo.processInfo.environment["BLOBCACHE_FUZZ_PLANT"] else { return nil }
    guard let bug = PlantedBug(rawValue: name) else { violated("there is no planted bug \(name)") }
    return bug
  }()
}
