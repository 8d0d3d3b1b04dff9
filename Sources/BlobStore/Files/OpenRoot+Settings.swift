internal import Logging
internal import Posix
internal import Synchronization

// Writes the two files of settings.
extension OpenRoot {
  /// Writes the settings, or removes the file if they are empty. Without `replacing`, returns `false` if the file exists.
  func writeSettings(
    _ settings: BlobStore.DirectorySettings, to name: String = SettingsFile.name, names: TemporaryNames,
    replacing: Bool, _ level: BlobStore.Durability.Level = .full
  ) throws -> Bool {
    if settings.isEmpty {
      guard try replacing && directory.unlink(name) else { return true }
    } else {
      let place = OpenSubdirectory(try directory.reopened())
      var draft = try FileDraft(in: place, of: ownership, names: names)
      let content = SettingsFile.content(for: settings)
      try draft.file.write(unsafe content.span.bytes, at: 0)
      try draft.synchronize(level)
      if replacing {
        try draft.replace(name)
      } else {
        guard try draft.commitOrLink(as: name) else { return false }
      }
    }
    if level == .full { try directory.synchronize() }
    return true
  }

  /// Records this program's configuration, unless the file already contains it, at most once while the directory is open.
  /// An error is only logged, because the change does not depend on the file.
  func record(_ values: BlobStore.DirectorySettings, names: TemporaryNames, _ logger: Logger) {
    guard !hasRecorded.load(ordering: .relaxed), !hasRecorded.exchange(true, ordering: .relaxed),
      // Users who do not trust each other ignore each other's settings.
      !ownership.isSharedByStrangers
    else { return }
    do {
      let old = try recordedConfiguration()
      var new = values
      // The settings state `spread`, unless the first store has yet to decide. Records indicate any other arrangement
      // only until the directory is empty.
      let isStated = arrangement == .spread || mustSayArrangement
      new.arrangement = values.arrangement ?? (isStated ? old.arrangement : arrangement)
      guard SettingsFile.content(for: new) != SettingsFile.content(for: old) else { return }
      // A foreign file stays.
      if let status = try directory.status(of: RecordedConfiguration.name) {
        guard status.type == .regular, ownership.owns(status) else { return }
      }
      // Synced only with an arrangement, without which records would not be found. Any other file that a power failure
      // leaves incomplete is ignored, and the next program writes it again.
      let level: BlobStore.Durability.Level = new.arrangement == nil ? .none : .full
      _ = try writeSettings(new, to: RecordedConfiguration.name, names: names, replacing: true, level)
    } catch {
      logger.debug("the configuration is not recorded: \(BlobStoreError(error, operation: "record", key: nil))")
    }
  }
}
