internal import BlobRecord
internal import Posix

extension SettingsChange {
  /// Writes into a new directory's settings that its records are spread, before the first one is stored.
  ///
  /// Of several first stores, one makes the file, and the others read it. Settings that are there keep what they say.
  ///
  /// - Throws: `busy` if another change of the settings goes on for `lockTimeout`; `fileSystem`; what reading them throws.
  func sayArrangement(in open: OpenRoot) throws {
    while true {
      // Another program may have said it by now, or stored records by another arrangement.
      try core.root.lookAtSettings(of: open, isForStore: true)
      guard open.mustSayArrangement else { return }
      if try open.settings() == nil {
        var settings = BlobStore.DirectorySettings()
        settings.arrangement = .spread
        guard try write(settings, in: open, replacing: false) else { continue }
      } else {
        guard try addArrangement(in: open) else { continue }
      }
      open.setArrangement(.spread, mustBeSaid: false)
      return
    }
  }

  /// Adds the arrangement to settings that say others.
  ///
  /// - Returns: false if there are none any more, or they say one.
  private func addArrangement(in open: OpenRoot) throws -> Bool {
    let root = try open.directory.reopened()
    defer { extendLifetime(root) }
    try lock(root, needsIt: !open.ownership.isOpenToReaders)
    guard var settings = try open.settings(), settings.arrangement == nil else { return false }
    settings.arrangement = .spread
    return try write(settings, in: open, replacing: true)
  }
}
