public import SystemPackage

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#elseif canImport(Android)
  internal import Android
#endif

/// All files of Spec/vectors, which this code generates without other input: each call returns the same bytes.
///
/// No two names differ only in case or in Unicode normalisation, so that the set can be checked out on file systems
/// that treat such names as equal.
public enum VectorSet {
  /// The update time of most records, 2023-11-14T22:13:20Z.
  static let updateTime: Int64 = 1_700_000_000
  /// The default expiration that the manifest's judgements assume, in seconds.
  static let defaultExpiration: Int64 = 600

  /// Returns every file with its path relative to the directory of the set.
  public static func files() -> [(path: String, bytes: [UInt8])] {
    let records = RecordVector.all
    return [("manifest.json", Array((manifest(of: records).rendered() + "\n").utf8))]
      + records.map { ($0.path, $0.bytes) } + PackVector.files
  }

  private static func manifest(of records: [RecordVector]) -> JSONText {
    .object([
      ("specification", .string("Spec/RecordFormat.md")),
      ("version", .number(1)),
      ("naming", .string("encoded")),
      ("separatesDirectories", .bool(true)),
      ("defaultExpiration", .number(defaultExpiration)),
      ("files", .array(records.map(\.manifestEntry))),
      ("names", .array(NameVector.all.map(\.manifestEntry))),
      ("foreignNames", .array(ForeignName.all.map(\.manifestEntry))),
    ])
  }

  /// Writes the set into a directory, which is created if it does not exist. Other files in the directory stay.
  ///
  /// The method calls the C library, because Foundation would normalise the names on Darwin.
  public static func write(to directory: FilePath) throws(Errno) {
    try createDirectory(directory)
    for (path, bytes) in files() {
      let components = path.split(separator: "/").map(String.init)
      var file = directory
      for component in components.dropLast() {
        file.append(component)
        try createDirectory(file)
      }
      file.append(components[components.count - 1])
      do {
        let descriptor = try FileDescriptor.open(
          file, .writeOnly, options: [.create, .truncate], permissions: [.ownerReadWrite, .groupRead, .otherRead])
        _ = try descriptor.closeAfter { try descriptor.writeAll(bytes) }
      } catch let error as Errno {
        throw error
      } catch {
        preconditionFailure("swift-system threw \(error), which is no Errno")
      }
    }
  }

  private static func createDirectory(_ directory: FilePath) throws(Errno) {
    let result = directory.withPlatformString { mkdir($0, 0o755) }
    if result != 0, errno != EEXIST { throw Errno(rawValue: errno) }
  }
}
