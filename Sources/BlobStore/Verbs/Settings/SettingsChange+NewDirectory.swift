internal import BlobRecord
internal import Posix

extension SettingsChange {
  /// Writes into a new directory's settings that its records are spread, and which are packed, before the first one is
  /// stored. In a directory that is in use, finds out which are packed.
  ///
  /// Of several first stores, one makes the file, and the others read it. Settings that are there keep what they say.
  ///
  /// - Throws: `busy` if another change of the settings goes on for `lockTimeout`; `fileSystem`; what reading them throws.
  func sayWhatIsNew(in open: OpenRoot) throws {
    let configuration = core.configuration
    while true {
      // Before the settings are read: what makes a directory no longer new comes after them.
      let isNew = try open.packing == nil && open.isNew(packs: PackDirectory.name, configuration.logger)
      // Another program may have said it by now, or stored records by another arrangement.
      try core.root.lookAtSettings(of: open, isForStore: true)
      if open.packing == nil, !isNew { open.setPacking(configuration.packing ?? .off) }
      let arrangement = open.mustSayArrangement ? RecordArrangement.spread : nil
      let packing = open.packing == nil ? configuration.packingOfNewDirectories : nil
      guard arrangement != nil || packing != nil else { return }
      guard try say(arrangement, packing, in: open) else { continue }
      if let arrangement { open.setArrangement(arrangement, mustBeSaid: false) }
      if let packing { open.setPacking(packing) }
      return
    }
  }

  /// Makes the settings, or adds to those that say something else.
  ///
  /// - Returns: false if others have changed them meanwhile.
  private func say(
    _ arrangement: RecordArrangement?, _ packing: BlobStore.Packing?, in open: OpenRoot
  ) throws -> Bool {
    guard try open.settings() != nil else {
      var settings = BlobStore.DirectorySettings()
      settings.arrangement = arrangement
      settings.packing = packing
      return try write(settings, in: open, replacing: false)
    }
    let root = try open.directory.reopened()
    defer { extendLifetime(root) }
    try lock(root, needsIt: !open.ownership.isOpenToReaders)
    guard var settings = try open.settings(), arrangement == nil || settings.arrangement == nil,
      packing == nil || settings.packing == nil
    else { return false }
    if let arrangement { settings.arrangement = arrangement }
    if let packing { settings.packing = packing }
    return try write(settings, in: open, replacing: true)
  }
}
