internal import Configuration
internal import Posix
internal import SystemPackage

#if canImport(FoundationEssentials)
  internal import FoundationEssentials
#else
  internal import Foundation
#endif

/// A configuration file of `collect` and `serve`: general settings, and settings by path in `directories`.
///
/// Every field is checked, so that a mistake in a name or a value is rejected and not ignored.
struct ConfigurationFile {
  /// The settings of the whole file.
  let settings: [CollectionSetting: String]
  /// The directories by canonical path. Symbolic links are resolved when the file is read.
  let directories: [FilePath: Directory]

  struct Directory {
    /// The path as written in the file.
    let path: FilePath
    /// The fields that only a server uses.
    let served: [ServedField: String]
    /// The directory's settings, which override the file's.
    let settings: [CollectionSetting: String]
  }

  private static let directoriesField = "directories"
  /// The limit of the file's size. A file with ten thousand directories is smaller.
  private static let maximumByteCount = 4 << 20

  /// - Throws: `ConfigurationUnreadable` for an unreadable file, or `UsageError` with file and field for a mistake.
  init(_ path: FilePath) throws {
    let bytes = try Self.read(path)
    let value: ConfigurationValue
    do {
      value = try JSONDecoder().decode(ConfigurationValue.self, from: bytes)
    } catch {
      throw UsageError("\(path): \(Self.message(error))")
    }
    let reader = FieldReader(file: path)
    let fields = try reader.object(value, at: [])
    settings = try reader.settings(fields, at: []) { $0 != Self.directoriesField }
    directories = try reader.directories(fields[Self.directoriesField], at: [Self.directoriesField])
    if directories.values.contains(where: { $0.settings[.interval] != nil }), settings[.interval] == nil {
      throw UsageError("\(path): a directory has a field \"every\", but the file itself has none")
    }
  }

  private static func read(_ path: FilePath) throws -> Data {
    do {
      let file = try FileDescriptor.open(path, .readOnly)
      return try file.closeAfter { try readToEnd(file) }
    } catch let error as Errno {
      throw ConfigurationUnreadable(path: path, errno: error)
    }
  }

  private static func readToEnd(_ file: FileDescriptor) throws -> Data {
    var content = Data()
    let piece = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 16, alignment: 1)
    defer { piece.deallocate() }
    while true {
      let count = try file.read(into: piece)
      guard count > 0 else { return content }
      content.append(contentsOf: piece[..<count])
      guard content.count <= maximumByteCount else { throw Errno.fileTooLarge }
    }
  }

  /// Returns the decoder's message without the names of its types.
  private static func message(_ error: any Error) -> String {
    guard let error = error as? DecodingError else { return "\(error)" }
    let context: DecodingError.Context
    switch error {
    case .dataCorrupted(let found), .keyNotFound(_, let found): context = found
    case .typeMismatch(_, let found), .valueNotFound(_, let found): context = found
    @unknown default: return "\(error)"
    }
    let reason = context.underlyingError.map { ": \($0)" } ?? ""
    return context.debugDescription + reason
  }
}

private struct ConfigurationUnreadable: Error, CustomStringConvertible {
  let path: FilePath
  let errno: Errno

  var description: String { "\(path): the configuration cannot be read: \(errno)" }
}

/// A JSON value of any type. Scalars are stored as text.
private enum ConfigurationValue: Decodable {
  case object([String: ConfigurationValue])
  case scalar(String)
  /// An array, null, or a number that is not an integer.
  case other

  init(from decoder: any Decoder) throws {
    if let object = try? [String: ConfigurationValue](from: decoder) {
      // Decoding is the only way to determine the type of a value.
      self = .object(object)
      return
    }
    let container = try decoder.singleValueContainer()
    if let text = try? container.decode(String.self) {
      self = .scalar(text)
    } else if let flag = try? container.decode(Bool.self) {
      self = .scalar("\(flag)")
    } else if let number = try? container.decode(Int64.self) {
      self = .scalar("\(number)")
    } else {
      self = .other
    }
  }
}

/// Reads fields and reports mistakes with file and path.
private struct FieldReader {
  let file: FilePath

  func object(_ value: ConfigurationValue, at path: [String]) throws -> [String: ConfigurationValue] {
    guard case .object(let fields) = value else { throw wrong(path, "must be an object") }
    return fields
  }

  /// - Parameter isSetting: A closure that returns whether a name belongs to a setting.
  func settings(
    _ fields: [String: ConfigurationValue], at path: [String], where isSetting: (String) -> Bool = { _ in true }
  ) throws -> [CollectionSetting: String] {
    var settings: [CollectionSetting: String] = [:]
    // Sorted by name, so that the same one of several mistakes is reported each time.
    for (name, value) in fields.sorted(by: { $0.key < $1.key }) where isSetting(name) {
      let path = path + [name]
      guard let setting = CollectionSetting(rawValue: name) else { throw wrong(path, "there is no such field") }
      guard path.count == 1 || setting.belongsToDirectories else {
        throw wrong(path, "belongs to the whole file, not to a directory")
      }
      guard case .scalar(let text) = value, setting.accepts(text) else {
        throw wrong(path, "must be \(setting.expectation)")
      }
      settings[setting] = text
    }
    if let metrics = settings[.metricsFile], !FilePath(metrics).isAbsolute {
      throw wrong(path + [CollectionSetting.metricsFile.rawValue], "must be an absolute path")
    }
    return settings
  }

  func directories(
    _ value: ConfigurationValue?, at path: [String]
  ) throws -> [FilePath: ConfigurationFile.Directory] {
    guard let value else { return [:] }
    var directories: [FilePath: ConfigurationFile.Directory] = [:]
    for (name, value) in try object(value, at: path).sorted(by: { $0.key < $1.key }) {
      let path = path + [name]
      // Relative paths would depend on a service's working directory.
      let directory = FilePath(name)
      guard directory.isAbsolute else { throw wrong(path, "must be an absolute path") }
      let key = try Files().canonical(directory)
      guard directories[key] == nil else { throw wrong(path, "is there twice") }
      let fields = try object(value, at: path)
      directories[key] = .init(
        path: directory,
        served: try served(fields, at: path),
        settings: try settings(fields, at: path) { ServedField(rawValue: $0) == nil })
    }
    return directories
  }

  private func served(
    _ fields: [String: ConfigurationValue], at path: [String]
  ) throws -> [ServedField: String] {
    var served: [ServedField: String] = [:]
    for field in ServedField.allCases {
      guard let value = fields[field.rawValue] else { continue }
      guard case .scalar(let text) = value, !text.isEmpty else {
        throw wrong(path + [field.rawValue], "must be a text that is not empty")
      }
      served[field] = text
    }
    return served
  }

  private func wrong(_ path: [String], _ message: String) -> UsageError {
    let field = path.isEmpty ? "the file" : path.map { $0.contains("/") ? "\"\($0)\"" : $0 }.joined(separator: ".")
    return UsageError("\(file): \(field): \(message)")
  }
}
