/// Names of files in the recycling bin: the bin leaves alone what has any other name.
package enum RecycledName {
  /// - Parameter number: hexadecimal digits.
  package static func of(_ number: String) -> String { "f-" + number + String(repeating: "-", count: 224) }
}
