/// The record that a packed record supersedes.
struct PackedPredecessor {
  /// The address of the superseded record, or `nil` if it is not packed.
  let address: PackAddress?
  let isFile: Bool

  init(_ before: Predecessor?) {
    address = before?.packAddress.map { PackAddress(rawValue: $0) }
    isFile = before != nil && address == nil
  }
}
