/// Names of files in the recycling bin, which ignores all other names.
package enum RecycledName {
  /// - Parameter number: The hexadecimal digits of the file's number.
  package static func of(_ number: String) -> String { "f-" + number + String(repeating: "-", count: 224) }
}
