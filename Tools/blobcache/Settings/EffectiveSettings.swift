internal import BlobRecord
internal import BlobStore
internal import SystemPackage

/// The settings in effect for a directory, each with its source.
struct EffectiveSettings {
  struct Row {
    let setting: DirectorySetting
    /// The value as in the settings file, or `nil` if the built-in value depends on the volume.
    let value: String?
    let source: String
  }

  let rows: [Row]

  /// - Throws: `settingsUnreadable`; `fileSystem`; `UsageError` for an invalid value in the environment.
  init(of directory: FilePath) throws {
    let own = try BlobStore.settings(of: directory)
    let program = try BlobStore.recordedConfiguration(of: directory)
    let environment = try CollectionPlan(directories: [directory], commandLine: [:], file: nil).directories[0].settings
    let naming = own.naming ?? program.naming ?? .encoded
    let ofRecords = try BlobStore.arrangementOfRecords(in: directory, naming: naming)
    var builtIn = BlobStore.DirectorySettings(BlobStore.Configuration())
    builtIn.arrangement = BlobStore.Configuration().arrangementOfNewDirectories
    builtIn.packing = .off
    rows = DirectorySetting.allCases.map { setting in
      let places: [(settings: BlobStore.DirectorySettings?, source: String)] = [
        (environment, "environment (for collect)"), (own, "directory"), (program, "program"),
      ]
      for (settings, source) in places {
        if let value = settings?.text(of: setting) { return Row(setting: setting, value: value, source: source) }
      }
      if setting == .layout, let ofRecords {
        return Row(setting: setting, value: ofRecords.rawValue, source: "records")
      }
      return Row(setting: setting, value: builtIn.text(of: setting), source: "built in")
    }
  }
}
