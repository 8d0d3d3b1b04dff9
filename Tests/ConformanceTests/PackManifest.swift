import Foundation
import Testing

/// Spec/vectors/pack/manifest.json, as Spec/PackFormat.md, "Vectors", describes it.
struct PackManifest: Decodable {
  struct Part: Decodable, Sendable {
    var path: String
    var file: String
    var offset: Int
    var byteCount: Int
  }

  struct Record: Decodable, Sendable, CustomStringConvertible {
    var offset: Int
    var note: String
    var fate: String
    var address: String
    var byteCount: Int
    var crc: String
    var sequence: UInt64
    var name: String
    var digest: String
    var refCount: UInt32
    var ttl: UInt64
    var updateTime: UInt64
    var payloadSize: Int
    var payloadCRC32: String
    var extensionSize: Int

    /// Whether a walk finds it.
    var isFound: Bool { fate != "nothing" }
    var description: String { "\(offset), \(note)" }
  }

  var version: Int
  var pack: Int
  var chunk: Int
  var parts: [Part]
  var salts: [String?]
  var lastUse: Int64
  var records: [Record]

  static func load() throws -> PackManifest {
    try JSONDecoder().decode(PackManifest.self, from: Data(Specification.bytes("vectors/pack/manifest.json")))
  }

  /// For the arguments of tests, which cannot throw.
  static let loaded = try? load()
}

/// The parts of the vector, as a reader of packs has them.
struct PackParts {
  let manifest: PackManifest
  let head: [UInt8]
  let tableEntry: [UInt8]
  let deadSectors: [UInt8]
  let records: [UInt8]
  let index: [UInt8]

  init() throws {
    manifest = try PackManifest.load()
    head = try Specification.bytes("vectors/pack/head")
    tableEntry = try Specification.bytes("vectors/pack/table-entry")
    deadSectors = try Specification.bytes("vectors/pack/dead-sectors")
    records = try Specification.bytes("vectors/pack/records")
    index = try Specification.bytes("vectors/pack/index")
  }

  /// Writes the packs into a directory, with holes between the parts.
  func write(to directory: String) throws {
    try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
    for part in manifest.parts {
      let path = directory + "/" + part.file
      if !FileManager.default.fileExists(atPath: path) { try Data().write(to: URL(filePath: path)) }
      let file = try #require(FileHandle(forWritingAtPath: path))
      try file.seek(toOffset: UInt64(part.offset))
      try file.write(contentsOf: Data(Specification.bytes("vectors/" + part.path)))
      try file.close()
    }
  }
}
