internal import Posix

extension BlobStore {
  /// Moves small records that have files to themselves into packs, as `configuration.packing` has it.
  ///
  /// Each is moved under its stripe, and can be loaded meanwhile. Other processes may do what they like beside it. Where it
  /// is cut off, another call goes on.
  ///
  /// - Throws: `invalidConfiguration` if the directory can have no packs, as `configuration.packing` tells, or processes share
  ///   no memory there; `notACache`; `fileSystem` where the volume is full.
  /// - Complexity: a walk over all records; for each that moves, a read, a write and an unlink.
  public func packRecords() throws(BlobStoreError) -> RelocationReport {
    try withErrorContext("pack") { try core.relocate(to: .packs) }
  }

  /// Gives each packed record a file to itself, as `packRecords` moves them the other way. Packing may be on or off.
  ///
  /// The chunks that become empty are for the next collection.
  ///
  /// - Throws: `notACache`; `fileSystem` where the volume is full.
  /// - Complexity: a walk over all records; for each that moves, a read and a new file.
  public func unpackRecords() throws(BlobStoreError) -> RelocationReport {
    try withErrorContext("unpack") { try core.relocate(to: .files) }
  }
}

extension StoreCore {
  fileprivate func relocate(to destination: Relocation.Destination) throws -> BlobStore.RelocationReport {
    guard configuration.hasOwnFormat || destination == .files else {
      throw BlobStoreError(
        .invalidConfiguration,
        "this directory has no packs, because SPTPersistentCache may share it and would not see what lies there",
        path: root.path)
    }
    guard configuration.mayPack || destination == .files else { throw packingIsOff }
    try requireCache()
    guard let open = try root.opened() else { return BlobStore.RelocationReport() }
    if destination == .packs, try Publisher(core: self, keeper: nil).madeRoot().packing == .off { throw packingIsOff }
    var relocation = Relocation(of: self, in: open, to: destination)
    try relocation.run()
    return relocation.report
  }
  private var packingIsOff: BlobStoreError {
    BlobStoreError(.invalidConfiguration, "packing is off for this directory", path: root.path)
  }
}
