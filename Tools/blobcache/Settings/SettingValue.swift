internal import ArgumentParser
internal import BlobStore

/// A limit as users write it: a value, or `none`.
struct SettingLimit<Value: WrittenValue>: WrittenValue {
  /// The limit, or `nil` for `none`.
  let value: Value?

  static var forms: String { "\(Value.forms); or none" }

  init?(argument: String) {
    if argument == "none" {
      value = nil
    } else {
      guard let value = Value(argument: argument) else { return nil }
      self.value = value
    }
  }
}

struct RecordCount: WrittenValue {
  let value: Int64

  static var forms: String { "a whole number above zero" }

  init?(argument: String) {
    guard let value = Int64(digits: argument), value > 0 else { return nil }
    self.value = value
  }
}

/// The size of the largest record that is packed, or `off`.
struct SettingPacking: WrittenValue {
  let value: BlobStore.Packing

  static var forms: String { "\(ByteCount.forms), up to \(BlobStore.Packing.largestBound) bytes; or off" }

  init?(argument: String) {
    if argument == "off" {
      value = .off
    } else {
      guard let bytes = ByteCount(argument: argument)?.bytes, 1...Int64(BlobStore.Packing.largestBound) ~= bytes else {
        return nil
      }
      value = .upTo(Int(bytes))
    }
  }
}
