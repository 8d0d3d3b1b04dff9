internal import ArgumentParser

/// A number of bytes as people write it: `4096`, `10MB`, `512KiB`, `2G`.
package struct ByteCount: Hashable {
  package let bytes: Int64

  private static let decimalUnits: [(suffix: String, bytes: Int64)] = [
    ("KB", 1_000), ("MB", 1_000_000), ("GB", 1_000_000_000), ("TB", 1_000_000_000_000),
  ]
  private static let binaryUnits: [(suffix: String, bytes: Int64)] = [
    ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40),
  ]
  /// Without a B they are binary, as in `ls -h`, `du -h` and unit files of systemd.
  private static let shortUnits: [(suffix: String, bytes: Int64)] = [
    ("K", 1 << 10), ("M", 1 << 20), ("G", 1 << 30), ("T", 1 << 40),
  ]
}

extension ByteCount {
  package init(_ bytes: some BinaryInteger) {
    self.init(bytes: Int64(clamping: bytes))
  }
}

extension ByteCount: WrittenValue {
  package static var forms: String {
    "a size in whole bytes or units: 4096, 10MB (of 1000), 512KiB or 512K (of 1024), 2G"
  }

  package init?(argument: String) {
    let unit =
      (Self.decimalUnits + Self.binaryUnits + Self.shortUnits).first { argument.hasSuffix($0.suffix) } ?? ("", 1)
    guard let count = Int64(digits: argument.dropLast(unit.suffix.count)) else { return nil }
    let (bytes, overflow) = count.multipliedReportingOverflow(by: unit.bytes)
    guard !overflow else { return nil }
    self.bytes = bytes
  }
}

extension ByteCount: CustomStringConvertible {
  /// To a tenth of a decimal unit: `512 B`, `34.2 KB`.
  package var description: String {
    guard bytes >= 1000 else { return "\(bytes) B" }
    var unit = Self.decimalUnits[0]
    for larger in Self.decimalUnits.dropFirst() where Self.tenths(bytes, unit.bytes) >= 10_000 { unit = larger }
    let tenths = Self.tenths(bytes, unit.bytes)
    return "\(tenths / 10).\(tenths % 10) \(unit.suffix)"
  }

  /// Such as `1 byte`, `34151 bytes`.
  var exact: String { bytes == 1 ? "1 byte" : "\(bytes) bytes" }

  private static func tenths(_ bytes: Int64, _ unit: Int64) -> Int64 {
    Int64((Double(bytes) / Double(unit) * 10).rounded())
  }
}
