import BlobRecord
import Foundation

/// Spec/vectors/manifest.json, as Spec/RecordFormat.md, "Vectors", describes it.
struct Manifest: Decodable {
  struct File: Decodable, Sendable, CustomStringConvertible {
    struct Header: Decodable, Sendable {
      var magic: String
      var headerSize: UInt32
      var refCount: UInt32
      var reserved1: String
      var ttl: UInt64
      var updateTime: UInt64
      var payloadSize: UInt64
      var reserved2: String
      var reserved3: String
      var reserved4: String
      var flags: UInt32
      var crc: String
    }
    struct Extension: Decodable, Sendable {
      var key: String?
      var data: String
    }
    struct Judgement: Decodable, Sendable {
      var evaluateAt: Int64
      var state: String
    }
    var path: String
    var key: String
    var note: String
    var fileSize: Int
    var outcome: String
    var code: Int?
    var header: Header?
    var payloadCRC32: String?
    var `extension`: Extension?
    var judgements: [Judgement]

    var description: String { path }
  }

  struct Name: Decodable, Sendable, CustomStringConvertible {
    var naming: String
    var key: String
    var fileName: String?
    var subdirectory: String?
    var spreadSubdirectory: String?
    var digest: String?
    var stripe: UInt64?
    var error: String?

    var description: String { "\(naming) \(key.debugDescription)" }
  }

  struct ForeignName: Decodable, Sendable, CustomStringConvertible {
    var naming: String
    var fileName: String

    var description: String { "\(naming) \(fileName.debugDescription)" }
  }

  var version: Int
  var naming: String
  var separatesDirectories: Bool
  var defaultExpiration: Int64
  var files: [File]
  var names: [Name]
  var foreignNames: [ForeignName]

  static func load() throws -> Manifest {
    try JSONDecoder().decode(Manifest.self, from: Data(Specification.bytes("vectors/manifest.json")))
  }

  /// The manifest for test arguments, which cannot throw. If it is `nil`, `theManifestIsThere` reports the reason.
  static let loaded = try? load()
}

/// Formats a number like the bit fields of the manifest.
func hexadecimal(_ value: some FixedWidthInteger & UnsignedInteger) -> String {
  let digits = String(value, radix: 16)
  return "0x" + String(repeating: "0", count: value.bitWidth / 4 - digits.count) + digits
}
