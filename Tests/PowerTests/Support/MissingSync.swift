import BlobStore

/// A mistake of workers, which say that a change is done before it is on the medium. `full` was promised.
struct MissingSync {
  /// By its name in `faultprobe`.
  let plant: String?
  let durability: BlobStore.Durability

  /// A store that syncs nothing.
  static let ofFiles = MissingSync(plant: "storesWithoutSync", durability: .full)
  /// Nothing is synced at all. What reaches the medium was written back by the system.
  static let ofPacks = MissingSync(plant: nil, durability: .none)

  /// Of payloads, so that it is packed records that are missing if any are to be.
  static func byteCounts(_ missing: MissingSync?, packs: Bool) -> [Int] {
    guard packs else { return VolumeOperations.files }
    return missing == nil ? VolumeOperations.mostlyPacked : VolumeOperations.packed
  }
}
