internal import BlobRecord
internal import TextFormats

/// The content of an object that is a lease.
struct S3Lease: Equatable {
  let holder: String
  /// How long it holds, from when the object was put there.
  let seconds: Int64

  init(holder: String, seconds: Int64) {
    self.holder = holder
    self.seconds = seconds
  }

  /// - Returns: nil for bytes that are no lease.
  init?(_ bytes: some Sequence<UInt8>) {
    let lines = String(decoding: Array(bytes), as: UTF8.self).split(separator: "\n", omittingEmptySubsequences: false)
    guard lines.count == 4, lines[0] == Self.title, lines[3].isEmpty, let holder = PercentEncoding.decoded(lines[1]),
      let seconds = Int64(lines[2]), seconds > 0
    else { return nil }
    self.init(holder: holder, seconds: seconds)
  }

  private static let title = "blobcache lease"

  var bytes: Data { Data("\(Self.title)\n\(PercentEncoding.encoded(holder))\n\(seconds)\n".utf8) }

  /// Whole seconds, and one more for a part of one.
  static func seconds(_ time: Duration) -> Int64 {
    max(time.components.seconds + (time.components.attoseconds > 0 ? 1 : 0), 1)
  }

  /// - Parameters:
  ///   - modified: when the object was put there, by the server's clock.
  ///   - now: the time of that clock.
  /// - Returns: false where the server does not tell. Others then wait and produce themselves.
  func hasEnded(modified: String?, now: String?) -> Bool {
    guard let start = modified.flatMap(HTTPDate.time)?.seconds, let now = now.flatMap(HTTPDate.time)?.seconds else {
      return false
    }
    return now - start > seconds
  }
}
