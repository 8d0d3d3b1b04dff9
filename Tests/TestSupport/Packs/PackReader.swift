internal import Foundation

/// The reader of packs in Python that was written from Spec/PackFormat.md.
package enum PackReader {
  package enum Way: String, CaseIterable, Sendable {
    case walk, index, checkpoint
  }

  package struct Record: Decodable, Sendable {
    package let address: UInt64
    package let name: String
    package let sequence: UInt64
    package let updateTime: Int64
    package let payloadCRC32: String
    /// The time of the last use, or `nil` if the record was found by a walk.
    package let lastUse: Int64?
  }

  package static var isInstalled: Bool { Programs.installed("python3") != nil }

  /// Returns the newest records, in the order of their addresses.
  ///
  /// - Parameters:
  ///   - directory: The packs of a cache that no process changes concurrently.
  ///   - way: The method by which the records are located.
  package static func records(in directory: String, by way: Way) throws -> [Record] {
    let script = Checkout.url("Tools/Vectors/read_packs.py").path
    let options = way == .walk ? [] : ["--\(way)"]
    let output = try ChildProcess.runSuccessfully(["python3", script] + options + [directory]).text
    return try output.split(separator: "\n").map { try JSONDecoder().decode(Record.self, from: Data($0.utf8)) }
  }
}
