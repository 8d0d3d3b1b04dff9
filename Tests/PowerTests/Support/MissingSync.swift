import BlobStore

/// A planted bug of workers that report success before a change is on the medium, although `full` was promised.
struct MissingSync {
  /// The name of the bug in `faultprobe`.
  let plant: String?
  let durability: BlobStore.Durability

  /// A store that syncs nothing.
  static let ofFiles = MissingSync(plant: "storesWithoutSync", durability: .full)
  /// Nothing is synced at all. Only the system's write-back reaches the medium.
  static let ofPacks = MissingSync(plant: nil, durability: .none)

  /// Returns the payload sizes. With a missing sync, all records are packed, so that the lost ones are packed records.
  static func byteCounts(_ missing: MissingSync?, packs: Bool) -> [Int] {
    guard packs else { return VolumeOperations.files }
    return missing == nil ? VolumeOperations.mostlyPacked : VolumeOperations.packed
  }
}
