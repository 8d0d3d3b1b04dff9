public import BlobRecord
internal import BlobStore

#if canImport(FoundationEssentials)
  public import FoundationEssentials
#else
  public import Foundation
#endif

/// A record on its way to a remote engine: the bytes of a record's file, as any reader of the format takes them.
///
/// It has no locks, which are promises of one machine. It has both checksums, and a time to live of its own.
public struct RemoteRecord: Sendable {
  /// The 64 bytes of the header.
  public let head: Data
  public let payload: Data
  /// The extension; empty for none.
  public let tail: Data
  /// The last second in which the record is live. An engine may drop it later.
  public let expiry: UnixTime

  public var byteCount: Int { head.count + payload.count + tail.count }
  /// Head, payload and tail.
  public var pieces: [Data] { [head, payload, tail].filter { !$0.isEmpty } }
  /// All of it in one piece, which is a copy.
  public var bytes: Data {
    var bytes = Data(capacity: byteCount)
    for piece in pieces { bytes.append(piece) }
    return bytes
  }
}

extension RemoteRecord {
  /// - Parameters:
  ///   - blob: what lies in the directory.
  ///   - defaultExpiration: the seconds to live that a ttl of 0 means there.
  ///   - place: where the record goes.
  init(_ blob: Blob, defaultExpiration: Int64, to place: RemotePlace) {
    var header = blob.header
    header.refCount = 0
    if header.ttl == 0 { header.ttl = UInt64(clamping: max(1, defaultExpiration)) }
    header.payloadSize = UInt64(blob.payload.count)
    if header.payloadChecksum == nil { header.payloadChecksum = CRC32.checksum(of: blob.payload.bytes) }
    header.keyDigest = place.digest
    let kept = RecordExtension(key: place.keptKey, data: blob.extendedData.map(Array.init) ?? [])
    let tail = kept.key == nil && kept.data.isEmpty ? [] : kept.encoded
    header.extensionEnd = tail.isEmpty ? nil : UInt32(tail.count)
    head = header.withEncodedBytes { bytes in unsafe bytes.withUnsafeBytes { unsafe Data($0) } }
    payload = blob.payload
    self.tail = Data(tail)
    expiry = header.expiry(defaultExpiration: defaultExpiration)
  }
}

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
