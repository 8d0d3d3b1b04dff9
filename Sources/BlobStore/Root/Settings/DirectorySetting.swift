internal import BlobRecord

/// A setting that a directory can keep, by its name in the settings file and as an option of the tool.
///
/// A setting more is a property of `DirectorySettings`, a case here, and its text in both directions.
package enum DirectorySetting: String, CaseIterable, Sendable {
  case defaultTimeToLive = "default-ttl"
  case sizeLimit = "size-limit"
  case countLimit = "count-limit"
  case freeSpaceFloor = "keep-free"
  case eviction
  case naming
  case layout
  case packing

  /// The values that the settings file may have, in words that follow "must be".
  package var forms: String {
    switch self {
    case .defaultTimeToLive: "a number of seconds from \(Self.minimumTimeToLive) on, or never"
    case .sizeLimit: "a number of bytes above zero, or none"
    case .countLimit: "a number of records above zero, or none"
    case .freeSpaceFloor: "a number of bytes"
    case .eviction: BlobStore.Eviction.allCases.map(\.rawValue).joined(separator: ", ")
    case .naming: RecordNaming.allCases.map(\.rawValue).joined(separator: ", ")
    case .layout: RecordArrangement.allCases.map(\.rawValue).joined(separator: ", ")
    case .packing: "a number of bytes from 1 to \(BlobStore.Packing.largestBound), or off"
    }
  }

  fileprivate static let minimumTimeToLive = BlobStore.Configuration.Expiry.minimumDefault.secondsRoundedUp
}

extension BlobStore.DirectorySettings {
  /// A setting's value in the settings file; nil if it is not said.
  package func text(of setting: DirectorySetting) -> String? {
    switch setting {
    case .defaultTimeToLive: defaultTimeToLive.map { $0 >= .never ? "never" : "\($0.secondsRoundedUp)" }
    case .sizeLimit: sizeLimit.map(\.text)
    case .countLimit: countLimit.map(\.text)
    case .freeSpaceFloor: freeSpaceFloor.map { "\($0)" }
    case .eviction: eviction?.rawValue
    case .naming: naming?.rawValue
    case .layout: arrangement?.rawValue
    case .packing: packing.map { $0.bound.map { "\($0)" } ?? "off" }
    }
  }

  /// Takes a setting's value from the settings file.
  ///
  /// - Returns: false where the text is no value of the setting; then nothing is changed.
  mutating func set(_ setting: DirectorySetting, to text: String) -> Bool {
    switch setting {
    case .defaultTimeToLive:
      guard let seconds = text == "never" ? .max : Int64(decimal: text), seconds >= DirectorySetting.minimumTimeToLive
      else { return false }
      defaultTimeToLive = .seconds(seconds)
    case .sizeLimit:
      guard let limit = Limit(text: text) else { return false }
      sizeLimit = limit
    case .countLimit:
      guard let limit = Limit(text: text) else { return false }
      countLimit = limit
    case .freeSpaceFloor:
      guard let floor = Int64(decimal: text) else { return false }
      freeSpaceFloor = floor
    case .eviction:
      guard let eviction = BlobStore.Eviction(rawValue: text) else { return false }
      self.eviction = eviction
    case .naming:
      guard let naming = RecordNaming(rawValue: text) else { return false }
      self.naming = naming
    case .layout:
      guard let arrangement = RecordArrangement(rawValue: text) else { return false }
      self.arrangement = arrangement
    case .packing:
      let bound = Int64(decimal: text).flatMap { Int(exactly: $0) }
      guard text == "off" || bound.map({ 1...BlobStore.Packing.largestBound ~= $0 }) == true else { return false }
      packing = BlobStore.Packing(bound: text == "off" ? nil : bound)
    }
    return true
  }
}

extension BlobStore.DirectorySettings.Limit {
  fileprivate var text: String { value.map { "\($0)" } ?? "none" }

  fileprivate init?(text: String) {
    if text == "none" {
      self = .unlimited
    } else {
      guard let value = Int64(decimal: text), value > 0 else { return nil }
      self = .atMost(value)
    }
  }
}

extension Int64 {
  /// A number in decimal digits alone, without a sign or leading zeros, so that each has one spelling.
  fileprivate init?(decimal text: String) {
    guard let value = Int64(text), value >= 0, String(value) == text else { return nil }
    self = value
  }
}
