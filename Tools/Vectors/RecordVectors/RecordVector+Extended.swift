internal import BlobRecord

// Version 2: flag 0x8, with an extension after the payload.
extension RecordVector {
  private static let longKey = "l" + String(repeating: "/", count: 85)

  static let extended: [RecordVector] = [
    extended("extended-data", note: "a content type beside the payload", Tail(data: "image/png")),
    extended(
      "extended-empty", note: "an extension of nothing, as it stays when its data are taken away", Tail(data: "")),
    extended(longKey, note: "a key that its record keeps", Tail(key: longKey, data: "")),
    extended(
      longKey + "d", note: "a kept key and extended data",
      Tail(key: longKey + "d", data: "image/png")),
    extended(
      "extended-behind-old", note: "a new extension behind the one that it replaces", Tail(data: "a longer one"),
      before: Tail(data: "old").bytes),
    extended(
      "extended-before-old", note: "a new extension in the room before the one that it replaces", Tail(data: "new"),
      after: Tail(data: "a longer one").bytes),
    damagedExtension("damaged-extension-bit", note: "one bit of the extension", code: 112) { $0[$0.count - 20] ^= 1 },
    damagedExtension("damaged-extension-magic", note: "no extension where one should be", code: 112) {
      $0[$0.count - 8] ^= 1
    },
    damagedExtension("damaged-extension-short", note: "the file ends before the extension", code: 103) {
      $0.removeLast()
    },
    damagedExtension("damaged-extension-payload-bit", note: "one bit of a payload before an extension", code: 108) {
      $0[64] ^= 1
    },
  ]

  private static func extended(
    _ key: String, note: String, _ tail: Tail, before: [UInt8] = [], after: [UInt8] = []
  ) -> RecordVector {
    var vector = sealed(
      key, note: note, payload: pattern(5), life: .live(until: 1_700_000_600), behind: before + tail.bytes + after
    ) { $0.extensionEnd = UInt32(before.count + tail.bytes.count) }
    vector.tail = tail
    return vector
  }

  private static func damagedExtension(
    _ key: String, note: String, code: Int, change: (inout [UInt8]) -> Void
  ) -> RecordVector {
    var vector = extended(key, note: note, Tail(data: "image/png"))
    change(&vector.bytes)
    vector.code = code
    vector.outcome = [103: "wrongPayloadSize", 108: "payloadChecksumMismatch", 112: "invalidExtension"][code] ?? ""
    vector.life = .damaged(until: 1_700_000_600)
    if code != 108 { vector.tail = nil }
    return vector
  }
}
