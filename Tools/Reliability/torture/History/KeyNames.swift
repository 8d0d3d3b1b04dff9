internal import BlobRecord

/// The keys of a run. Each one has a separate subdirectory, so that collections remove subdirectories too.
enum KeyNames {
  static func key(_ number: Int) -> BlobKey {
    let letters = Array("abcdefghijklmnopqrstuvwxyz")
    return BlobKey("\(letters[number / 26])\(letters[number % 26])-torture-\(number)")
  }

  /// The number of keys whose blobs are read while they are written.
  static let streamCount = 2

  static func stream(_ number: Int) -> BlobKey { BlobKey("streamed-\(number)") }
}
