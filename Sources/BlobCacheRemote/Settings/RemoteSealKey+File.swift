public import BlobCache
public import SystemPackage

extension RemoteSealKey {
  /// A key whose bytes are the first line of a file, without spaces around it.
  ///
  /// - Parameter path: a file that other users may not read, of 16 bytes or more.
  /// - Throws: `RemoteSettingError` for a file that cannot be read, that other users may read, and for fewer bytes.
  public init(file path: FilePath) throws(RemoteSettingError) {
    let line = try SecretFile.firstLine(of: path)
    guard let key = RemoteSealKey(line.utf8) else {
      throw RemoteSettingError(
        "\(path)", "its first line has \(line.utf8.count) bytes, and a key for seals has 16 or more")
    }
    self = key
  }
}
