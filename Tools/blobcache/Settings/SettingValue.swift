internal import ArgumentParser

/// A limit as people write it: a value, or `none`.
struct SettingLimit<Value: WrittenValue>: WrittenValue {
  /// nil for none.
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

/// A number of records above zero.
struct RecordCount: WrittenValue {
  let value: Int64

  static var forms: String { "a whole number above zero" }

  init?(argument: String) {
    guard let value = Int64(digits: argument), value > 0 else { return nil }
    self.value = value
  }
}
