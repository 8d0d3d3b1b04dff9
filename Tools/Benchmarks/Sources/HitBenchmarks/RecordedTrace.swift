import Foundation
import ReplacementPolicies
import SystemPackage
import Workbench

extension AccessTrace {
  /// Reads `NAME.u32` or `NAME.u32x2`, and decompresses it with the program xz if its name ends with `.xz`.
  init(recordedIn file: FilePath) throws {
    let name = file.lastComponent?.string ?? ""
    let isPacked = name.hasSuffix(".xz")
    let unpackedName = isPacked ? String(name.dropLast(3)) : name
    let bytes = try isPacked ? Self.unpack(file) : Data(contentsOf: URL(filePath: file.string))
    let isWeighted = unpackedName.hasSuffix(".u32x2")
    try BenchmarkFailure.require(isWeighted || unpackedName.hasSuffix(".u32"), "\(file): neither .u32 nor .u32x2")
    try BenchmarkFailure.require(bytes.count % (isWeighted ? 8 : 4) == 0, "\(file): ends within a request")
    let words = bytes.withUnsafeBytes { bytes in
      stride(from: 0, to: bytes.count, by: 4).map {
        Int(UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: $0, as: UInt32.self)))
      }
    }
    let title = String(unpackedName.prefix { $0 != "." })
    guard isWeighted else {
      self.init(name: title, keys: words)
      return
    }
    let keys = stride(from: 0, to: words.count, by: 2).map { words[$0] }
    // A record has at least 64 bytes.
    self.init(name: title, keys: keys, weights: stride(from: 1, to: words.count, by: 2).map { max(words[$0], 64) })
  }

  private static func unpack(_ file: FilePath) throws -> Data {
    let process = Process()
    let output = Pipe()
    process.executableURL = URL(filePath: "/usr/bin/env")
    process.arguments = ["xz", "-dc", "--", file.string]
    process.standardOutput = output
    try process.run()
    let bytes = output.fileHandleForReading.readDataToEndOfFile()
    process.waitUntilExit()
    try BenchmarkFailure.require(process.terminationStatus == 0, "\(file): xz ended with \(process.terminationStatus)")
    return bytes
  }
}
