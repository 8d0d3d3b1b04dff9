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

  /// Turns packing off for the directory and gives each packed record a file of its own, as `packRecords` moves them the other way.
  ///
  /// The directory's settings say `packing off` before the first record moves, so that programs which follow them pack nothing more.
  /// The packs are removed once no record is left in them. They stay if records were busy, or could not be moved, or if a program
  /// whose own configuration packs has stored others meanwhile; another call goes on.
  ///
  /// - Throws: `notACache`; `busy` if a collection or another change of the settings goes on for too long; `fileSystem` where the
  ///   volume is full.
  /// - Complexity: a walk over all records; for each that moves, a read and a new file.
  public func unpackRecords() throws(BlobStoreError) -> RelocationReport {
    try withErrorContext("unpack") {
      let report = try core.relocate(to: .files)
      if let open = try core.root.opened(), let packs = try core.records.packs(of: open) {
        _ = try core.packHolder.removeEmptyPacks(packs.packs, of: open)
      }
      return report
    }
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
    if destination == .files { try turnPackingOff(in: open) }
    if destination == .packs, try Publisher(core: self, enforcer: nil).madeRoot().packing == .off { throw packingIsOff }
    var relocation = Relocation(of: self, in: open, to: destination)
    try relocation.run()
    return relocation.report
  }

  private func turnPackingOff(in open: OpenRoot) throws {
    let said = try open.settings()?.packing
    guard try said != .off && (said != nil || records.packs(of: open) != nil) else { return }
    let access = configuration.access
    try BlobStore.changeSettings(
      of: root.path, allowsWorldWritable: access.allowsWorldWritable, lockTimeout: access.lockTimeout, files: root.files
    ) { $0.packing = .off }
    try root.lookAtSettings(of: open)
  }

  private var packingIsOff: BlobStoreError {
    BlobStoreError(.invalidConfiguration, "packing is off for this directory", path: root.path)
  }
}
