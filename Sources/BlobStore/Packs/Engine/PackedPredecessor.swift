/// What a packed record takes the place of.
struct PackedPredecessor {
  /// Where it lies, if it is packed.
  let address: PackAddress?
  let isFile: Bool

  init(_ found: borrowing FoundRecord?) {
    address = FoundRecord.packAddress(of: found).map { PackAddress(rawValue: $0) }
    isFile = found != nil && address == nil
  }
}
