internal import Posix

extension BlobStore {
  /// Moves small records from separate files into packs, as `configuration.packing` demands.
  ///
  /// Each record is moved under its stripe, and can be loaded in the meantime. Other processes may use the directory
  /// concurrently. If the call is interrupted, another call continues the work.
  ///
  /// - Throws: `invalidConfiguration` if the directory cannot have packs because of `configuration.packing`, or
  ///   because processes do not share memory there; `notACache`; `fileSystem` if the volume is full.
  /// - Complexity: A walk over all records, and for each moved record a read, a write and an unlink.
  public func packRecords() throws(BlobStoreError) -> RelocationReport {
    try withErrorContext("pack") { try Records(core).relocate(to: .packs) }
  }

  /// Turns packing off for the directory, and moves each packed record to a separate file.
  ///
  /// The setting `packing off` is written first, so that programs that follow the settings pack no further records.
  /// The packs are removed once they are empty. They remain if records were busy or could not be moved, or if a
  /// program whose own configuration enables packing has stored others in the meantime. Another call then continues.
  ///
  /// - Throws: `notACache`; `busy` if a collection or another change of the settings takes too long; `fileSystem` if
  ///   the volume is full.
  /// - Complexity: A walk over all records, and for each moved record a read and a new file.
  public func unpackRecords() throws(BlobStoreError) -> RelocationReport {
    try withErrorContext("unpack") {
      let report = try Records(core).relocate(to: .files)
      if let open = try core.root.opened(), let packs = try Records(core).packs(of: open) {
        _ = try core.packHolder.removeEmptyPacks(packs.packs, of: open)
      }
      return report
    }
  }
}

extension Records {
  fileprivate func relocate(to destination: KeyTransaction.Engine) throws -> BlobStore.RelocationReport {
    guard core.configuration.hasOwnFormat || destination == .files else {
      throw BlobStoreError(
        .invalidConfiguration,
        "this directory has no packs, because SPTPersistentCache may share it and would not see what lies there",
        path: core.root.path)
    }
    guard core.configuration.mayPack || destination == .files else { throw packingIsOff }
    try requireCache()
    guard let open = try core.root.opened() else { return BlobStore.RelocationReport() }
    if destination == .files { try turnPackingOff(in: open) }
    if destination == .packs, try Publisher(core: core, enforcer: nil).madeRoot().packing == .off { throw packingIsOff }
    var relocation = Relocation(of: core, in: open, to: destination)
    try relocation.run()
    return relocation.report
  }

  private func turnPackingOff(in open: OpenRoot) throws {
    let said = try open.settings()?.packing
    guard try said != .off && (said != nil || packs(of: open) != nil) else { return }
    let access = core.configuration.access
    try BlobStore.changeSettings(
      of: core.root.path, allowsWorldWritable: access.allowsWorldWritable, lockTimeout: access.lockTimeout,
      files: core.root.files
    ) { $0.packing = .off }
    try core.root.checkSettings(of: open)
  }

  private var packingIsOff: BlobStoreError {
    BlobStoreError(.invalidConfiguration, "packing is off for this directory", path: core.root.path)
  }
}
