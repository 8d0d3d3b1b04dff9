/// What a packed record takes the place of.
struct PackedPredecessor {
  /// Where it lies, if it is packed.
  let address: PackAddress?
  let isFile: Bool

  init(_ before: Predecessor?) {
    address = before?.packAddress.map { PackAddress(rawValue: $0) }
    isFile = before != nil && address == nil
  }
}
