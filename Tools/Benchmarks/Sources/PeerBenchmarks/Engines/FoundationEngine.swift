import Foundation
import SystemPackage
import Workbench

/// Foundation's atomic write of whole files with an NSCache in front, as many programs implement it.
///
/// On disk it works like SPTPersistentCache: a header and the payload are one `Data`, and a missing subdirectory is
/// created. `loadTouching` writes the whole file again, atomically, with a new time in its header.
///
/// Unchecked: the only mutable state is the NSCache, which is thread-safe.
final class FoundationEngine: Engine, Session, @unchecked Sendable {
  private let directory: String
  private let memory = NSCache<NSString, NSData>()

  init(directory: FilePath) throws {
    self.directory = directory.string
    try FileManager.default.createDirectory(atPath: self.directory, withIntermediateDirectories: true)
  }

  func session() -> any Session { self }

  func forget() { memory.removeAllObjects() }

  private func subdirectory(of entry: Entry) -> String { directory + "/" + entry.name.prefix(2) }

  private func path(of entry: Entry) -> String { subdirectory(of: entry) + "/" + entry.name }

  func store(_ entry: Entry) throws {
    try store(entry, .atomic)
    remember(entry.payload.bytes, entry)
  }

  /// Writes without the atomic option, which syncs, because a hundred thousand syncs take minutes.
  func fill(_ entry: Entry, notesUses: Bool) throws { try store(entry, []) }

  private func store(_ entry: Entry, _ options: Data.WritingOptions) throws {
    try FileManager.default.createDirectory(atPath: subdirectory(of: entry), withIntermediateDirectories: true)
    var record = Data(capacity: Payload.headerSize + entry.payload.bytes.count)
    record.append(contentsOf: header())
    record.append(entry.payload.bytes)
    try write(record, entry, options)
  }

  func load(_ entry: Entry) throws -> Data? {
    if let found = memory.object(forKey: entry.name as NSString) { return found as Data }
    return try record(of: entry).map { payload(of: $0, entry) }
  }

  func loadTouching(_ entry: Entry) throws -> Data? {
    guard var record = try record(of: entry) else { return nil }
    record.replaceSubrange(0..<Payload.headerSize, with: header())
    try write(record, entry, .atomic)
    return payload(of: record, entry)
  }

  func remove(_ entry: Entry) throws {
    memory.removeObject(forKey: entry.name as NSString)
    try FileManager.default.removeItem(atPath: path(of: entry))
  }

  private func header() -> [UInt8] {
    var header = [UInt8](repeating: 0, count: Payload.headerSize)
    withUnsafeBytes(of: UInt64(Date().timeIntervalSince1970)) { header.replaceSubrange(24..<32, with: $0) }
    return header
  }

  private func write(_ record: Data, _ entry: Entry, _ options: Data.WritingOptions) throws {
    try record.write(to: URL(fileURLWithPath: path(of: entry), isDirectory: false), options: options)
  }

  private func record(of entry: Entry) throws -> Data? {
    let path = path(of: entry)
    guard FileManager.default.fileExists(atPath: path) else { return nil }
    return try Data(contentsOf: URL(fileURLWithPath: path, isDirectory: false))
  }

  private func payload(of record: Data, _ entry: Entry) -> Data {
    let payload = record.subdata(in: Payload.headerSize..<record.count)
    remember(payload, entry)
    return payload
  }

  private func remember(_ payload: Data, _ entry: Entry) {
    memory.setObject(payload as NSData, forKey: entry.name as NSString, cost: payload.count)
  }
}
