internal import BlobRecord
internal import FuzzSupport

/// A fuzz input: a file in a cache directory, and the store and the time for reading it.
///
/// Its parts are a byte each for repairs, time, store and the length of the name, then the name and the file.
struct RecordInput {
  var fileName: String
  var key: BlobKey
  var file: [UInt8]
  var now: UnixTime
  var defaultExpiration: Int64 { 600 }
  var store: Int

  /// - Returns: The input, or `nil` if it is too short to contain a file.
  init?(_ input: [UInt8]) {
    guard input.count >= 4 else { return nil }
    let nameEnd = min(input.count, 4 + Int(input[3]))
    let name = String(decoding: input[4..<nameEnd], as: UTF8.self)
    if let key = RecordNaming.encoded.key(ofFileName: name) {
      fileName = name
      self.key = key
    } else {
      fileName = "fuzz"
      key = "fuzz"
    }
    file = Array(input[nameEnd...])
    HeaderRepair(rawValue: input[0]).apply(to: &file, fileName: fileName)
    store = Int(input[2])
    let updated: UInt64 = file.count >= 64 ? file.integer(at: 24) : 0
    // Times around the expiry of this record, and the extreme values.
    let base = UnixTime(seconds: Int64(clamping: updated))
    now =
      switch input[1] % 8 {
      case 0: base
      case 1: base.advanced(bySeconds: 1)
      case 2: base.advanced(bySeconds: 600)
      case 3: base.advanced(bySeconds: 601)
      case 4: base.advanced(bySeconds: -1)
      case 5: UnixTime(seconds: 0)
      case 6: UnixTime(seconds: .max)
      default: UnixTime(seconds: 1_700_000_000)
      }
  }
}
