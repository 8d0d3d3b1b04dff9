package import BlobRecord
package import CRawFiles

/// Keys for the store, and equal ones for raw system calls.
package struct Keys {
  package let raw: [raw_key]
  package let blob: [BlobKey]

  /// - Parameter first: keys of disjoint ranges are different.
  package init(from first: Int, count: Int) {
    var raw = [raw_key](repeating: raw_key(), count: count)
    raw_make_keys(UInt64(first), count, &raw)
    self.raw = raw
    blob = raw.map { key in
      withUnsafeBytes(of: key.text) { BlobKey(String(decoding: $0.dropLast(), as: UTF8.self)) }
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
