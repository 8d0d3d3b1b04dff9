package import BlobRecord
package import CRawFiles

/// Keys for the store, and the same keys for raw system calls.
package struct Keys {
  package let raw: [raw_key]
  package let blob: [BlobKey]

  /// The maximum number of bytes of a key.
  package static let longest = 40

  /// - Parameters:
  ///   - first: The number of the first key. Disjoint ranges have different keys.
  ///   - byteCount: The size of each key in bytes, from 16 to 40.
  package init(from first: Int, count: Int, byteCount: Int = longest) {
    var raw = [raw_key](repeating: raw_key(), count: count)
    raw_make_keys(UInt64(first), count, byteCount, &raw)
    self.raw = raw
    blob = raw.map { key in
      withUnsafeBytes(of: key.text) { BlobKey(String(decoding: $0.prefix(byteCount), as: UTF8.self)) }
    }
  }

  private init(raw: [raw_key], blob: [BlobKey]) {
    self.raw = raw
    self.blob = blob
  }

  package func prefix(_ count: Int) -> Keys {
    Keys(raw: Array(raw.prefix(count)), blob: Array(blob.prefix(count)))
  }
}
