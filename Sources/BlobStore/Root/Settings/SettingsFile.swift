internal import BlobRecord
internal import Posix

/// `.blobcache.conf` at the root, which contains the settings of a directory (Spec/Semantics.md, P16).
///
/// It is a short text that `cat` can show. The first line contains the version, and the last one a checksum of all
/// lines before it. An incomplete or untrusted file is an error, because with wrong settings, records would be lost.
enum SettingsFile {
  static let name = ".blobcache.conf"

  static let maximumByteCount = 4096

  private static let version = "blobcache 2"
  /// In this version, programs locked the bytes of stripes, not their words.
  private static let earlierVersion = "blobcache 1"
  private static let checkName = "check"

  struct Mistake: Error, Equatable {
    /// The number of the line, from 1, or `nil` for the whole file.
    var line: Int?
    let text: String
  }

  // MARK: - Content

  static func content(for settings: BlobStore.DirectorySettings) -> [UInt8] {
    var text = version + "\n"
    for setting in DirectorySetting.allCases {
      if let value = settings.text(of: setting) { text += "\(setting.rawValue) \(value)\n" }
    }
    return Array((text + "\(checkName) \(check(of: Array(text.utf8)))\n").utf8)
  }

  static func settings(in content: [UInt8]) throws(Mistake) -> BlobStore.DirectorySettings {
    guard content.allSatisfy({ $0 == 0x0A || (0x20..<0x7F).contains($0) }) else {
      throw Mistake(text: "it holds other bytes than printable ASCII")
    }
    guard content.last == 0x0A else { throw Mistake(text: "its last line has no end") }
    let lines = content.dropLast().split(separator: 0x0A, omittingEmptySubsequences: false)
      .map { String(decoding: $0, as: UTF8.self) }
    try checkVersion(lines[0])
    let checked = content.count - (lines.last!.utf8.count + 1)
    guard lines.count > 1, lines.last! == "\(checkName) \(check(of: Array(content[..<checked])))" else {
      throw Mistake(text: "its last line does not fit the lines before: an editor or damage has changed it")
    }
    var settings = BlobStore.DirectorySettings()
    for (index, line) in lines.enumerated().dropFirst().dropLast() {
      do {
        try read(line, into: &settings)
      } catch {
        throw Mistake(line: index + 1, text: error.text)
      }
    }
    return settings
  }

  private static func checkVersion(_ line: String) throws(Mistake) {
    guard line != version, line != earlierVersion else { return }
    let isLater = line.hasPrefix("blobcache ") && line.utf8.count < 30
    throw Mistake(
      line: 1, text: isLater ? "\"\(line)\" is of a later version than this one reads" : "\"\(version)\" is missing")
  }

  private static func read(_ line: String, into settings: inout BlobStore.DirectorySettings) throws(Mistake) {
    let words = line.split(separator: " ", maxSplits: 1, omittingEmptySubsequences: false)
    guard words.count == 2, let setting = DirectorySetting(rawValue: String(words[0])) else {
      throw Mistake(text: "\"\(line.prefix(80))\" is no setting that this version knows")
    }
    guard settings.text(of: setting) == nil else { throw Mistake(text: "\(setting.rawValue) is there twice") }
    guard settings.set(setting, to: String(words[1])) else {
      throw Mistake(text: "\(setting.rawValue) must be \(setting.forms), and is \"\(words[1].prefix(80))\"")
    }
  }

  private static func check(of lines: [UInt8]) -> String {
    let digits = String(unsafe CRC32.checksum(of: lines.span.bytes), radix: 16)
    return String(repeating: "0", count: 8 - digits.count) + digits
  }
}

// MARK: - File

extension OpenRoot {
  /// Reads the settings of the directory, if it has any, or throws `settingsUnreadable`.
  ///
  /// System calls: `openat2(2)`, and if the file exists, `fstat(2)`, `pread(2)`, and `close(2)`.
  func settings(in name: String = SettingsFile.name) throws -> BlobStore.DirectorySettings? {
    switch try directory.openFile(name, for: .read) {
    case .absent: return nil
    case .notRegular: throw unreadable(name, "something else than a file has this name")
    case .regular(let file, let status):
      if let distrust = ownership.owners.distrust(of: status) { throw unreadable(name, "\(distrust)") }
      guard status.size <= SettingsFile.maximumByteCount else {
        throw unreadable(name, "it is larger than \(SettingsFile.maximumByteCount) bytes")
      }
      var content = [UInt8](repeating: 0, count: Int(status.size))
      let count = try unsafe content.withUnsafeMutableBytes { buffer throws(FileError) in
        unsafe try file.read(into: buffer, at: 0)
      }
      do {
        return try SettingsFile.settings(in: Array(content[..<count]))
      } catch {
        throw unreadable(name, (error.line.map { "line \($0): " } ?? "") + error.text)
      }
    }
  }

  private func unreadable(_ name: String, _ reason: String) -> BlobStoreError {
    BlobStoreError(
      .settingsUnreadable,
      "the directory's settings cannot be used: \(reason); `blobcache configure DIR --reset` removes them",
      path: directory.path.appending(name))
  }
}

/// A setting of a directory, with its name in the settings file and as an option of the tool.
///
/// A new setting needs a property of `DirectorySettings`, a case here, and its conversion to and from text.
package enum DirectorySetting: String, CaseIterable, Sendable {
  case defaultTimeToLive = "default-ttl"
  case sizeLimit = "size-limit"
  case countLimit = "count-limit"
  case freeSpaceFloor = "keep-free"
  case eviction
  case naming
  case layout
  case packing

  /// A description of the valid values that completes a sentence with "must be".
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
  /// Returns a setting's value in the settings file, or `nil` if it is not set.
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

  /// Parses a setting's value. Returns `false`, without a change, if the text is not valid.
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
  /// Parses a number of decimal digits without a sign or leading zeros, so that each number has one spelling.
  fileprivate init?(decimal text: String) {
    guard let value = Int64(text), value >= 0, String(value) == text else { return nil }
    self = value
  }
}
