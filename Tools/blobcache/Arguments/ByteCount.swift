internal import ArgumentParser
internal import TextFormats

/// A number of bytes as users write it: `4096`, `10MB`, `512KiB`, `2G`.
package struct ByteCount: Hashable {
  package let bytes: Int64

  /// The units KB to TB.
  private static let decimalUnits = Quantities.byteUnits.prefix(4)
  private static let binaryUnits: [(suffix: String, bytes: Int64)] = [
    ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40),
  ]
  /// Units without a B are binary, as in `ls -h`, `du -h` and unit files of systemd.
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
  /// The number rounded to a tenth of a decimal unit: `512 B`, `34.2 KB`.
  package var description: String { Quantities.bytes(bytes, in: Self.decimalUnits) }

  /// The exact number of bytes, such as `1 byte` or `34151 bytes`.
  var exact: String { bytes == 1 ? "1 byte" : "\(bytes) bytes" }
}
