internal import BlobRecord
internal import FuzzSupport

/// What a fuzz input describes: a file in a cache directory, how the store looks at it, and when.
///
/// A byte each: repairs, the moment, the store, the length of the name; then the name, then the file.
struct RecordInput {
  var fileName: String
  var key: BlobKey
  var file: [UInt8]
  var now: UnixTime
  var defaultExpiration: Int64 { 600 }
  /// Which of the stores to use.
  var store: Int

  /// - Returns: nil for inputs that are too short to describe a file.
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
    // Around the moment that matters for this record, and at the ends of time.
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
