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
    /// A Boolean value that indicates whether an entry of the checkpoint refers to the record.
    var inCheckpoint: Bool

    /// A Boolean value that indicates whether a walk finds the record.
    var isFound: Bool { fate != "nothing" }
    var description: String { "\(offset), \(note)" }
  }

  struct Chunk: Decodable, Sendable {
    var chunk: Int
    var salts: [String?]
    var records: [Record]
  }

  struct Checkpoint: Decodable, Sendable {
    var sequence: UInt64
    var lastUse: Int64
    /// The chunks that the checkpoint covers.
    var covered: [Int]
  }

  var version: Int
  var pack: Int
  var parts: [Part]
  var lastUse: Int64
  var checkpoint: Checkpoint
  var chunks: [Chunk]

  var records: [Record] { chunks.flatMap(\.records) }

  static func load() throws -> PackManifest {
    try JSONDecoder().decode(PackManifest.self, from: Data(Specification.bytes("vectors/pack/manifest.json")))
  }

  /// The manifest for test arguments, which cannot throw.
  static let loaded = try? load()
}

/// The parts of the vector in the types of a pack reader.
struct PackParts {
  struct Chunk {
    let pack: Int
    let manifest: PackManifest.Chunk
    let tableEntry: [UInt8]
    let deadSectors: [UInt8]
    let records: [UInt8]
  }

  let manifest: PackManifest
  let head: [UInt8]
  let chunks: [Chunk]
  let index: [UInt8]
  let checkpointHead: [UInt8]
  let checkpointBuckets: [UInt8]

  init() throws {
    let manifest = try PackManifest.load()
    self.manifest = manifest
    head = try Specification.bytes("vectors/pack/head")
    chunks = try zip(manifest.chunks, ["", "covered-"]).map { chunk, prefix in
      Chunk(
        pack: manifest.pack, manifest: chunk,
        tableEntry: try Specification.bytes("vectors/pack/\(prefix)table-entry"),
        deadSectors: try Specification.bytes("vectors/pack/\(prefix)dead-sectors"),
        records: try Specification.bytes("vectors/pack/\(prefix)records"))
    }
    index = try Specification.bytes("vectors/pack/index")
    checkpointHead = try Specification.bytes("vectors/pack/checkpoint-head")
    checkpointBuckets = try Specification.bytes("vectors/pack/checkpoint-buckets")
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
