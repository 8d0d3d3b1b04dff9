/// The aspects of a superseded record that matter to its packed successor.
struct PackedPredecessor {
  /// The address of the superseded record, or `nil` if it is not packed.
  let address: PackAddress?
  let isFile: Bool

  init(_ found: borrowing FoundRecord?) {
    switch found {
    case nil: (address, isFile) = (nil, false)
    case let found?:
      address = found.packAddress.map { PackAddress(rawValue: $0) }
      isFile = address == nil
    }
  }
}
