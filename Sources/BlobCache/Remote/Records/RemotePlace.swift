internal import BlobRecord

/// Where the record of a key lies remotely, and how it must say so.
struct RemotePlace: Sendable {
  let key: BlobKey
  let name: RemoteName
  /// The digest of the file name, which the header states.
  let digest: UInt64
  /// The key, where the name does not tell it.
  let keptKey: BlobKey?

  /// - Throws: `KeyError` for a key without a name there.
  init(of key: BlobKey, in namespace: RemoteNamespace) throws(KeyError) {
    let place = try namespace.place(of: key)
    self.key = key
    name = place.name
    digest = place.digest
    let keepsKey =
      namespace.naming.keepsKey(ofFileName: place.fileName)
      && key.string.utf8.count <= RecordExtension.maximumKeyByteCount
    keptKey = keepsKey ? key : nil
  }
}
