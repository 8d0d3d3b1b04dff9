internal import BlobRecord
internal import Logging
internal import Posix
internal import Synchronization
internal import SystemPackage

/// Compares a store's configuration with the settings of its directory when the store opens the directory.
///
/// Layout and naming must match the directory, because otherwise loads find nothing and stores mix layouts. In all
/// other respects the configuration takes precedence, and a difference is logged once.
final class SettingsAgreement: Sendable {
  private let configuration: BlobStore.Configuration
  private let hasTold = Atomic(false)

  init(_ configuration: BlobStore.Configuration) { self.configuration = configuration }

  /// Compares the two, and determines arrangement and packing. Throws `layoutMismatch` or `settingsUnreadable`.
  func check(_ root: OpenRoot, isForStore: Bool) throws {
    let said = try root.settings()
    if let said { try compare(said, root) }
    root.findPacking(configuration, settings: said)
    try root.findArrangement(configuration, settings: said, isForStore: isForStore)
  }

  private func compare(_ said: BlobStore.DirectorySettings, _ root: OpenRoot) throws {
    let file = root.directory.path.appending(SettingsFile.name)
    let own = BlobStore.DirectorySettings(configuration)
    let differences = DirectorySetting.allCases.compactMap { Difference($0, said, own) }
    guard !differences.contains(where: \.isOfLayout) else { throw Self.mismatch(said, configuration.layout, file) }
    // The configuration of a program that does not record it may differ from the directory on purpose.
    guard !differences.isEmpty, configuration.access.recordsConfiguration,
      !hasTold.exchange(true, ordering: .relaxed)
    else { return }
    let here = differences.map { "\($0.setting.rawValue) \($0.said)" }.joined(separator: ", ")
    let there = differences.map { "\($0.own)" }.joined(separator: ", ")
    configuration.logger.warning(
      "\(file) says \(here); this program says \(there), and that holds for what it stores and collects")
  }

  private struct Difference {
    let setting: DirectorySetting
    let said: String
    let own: String

    var isOfLayout: Bool { setting == .naming || setting == .layout }

    init?(_ setting: DirectorySetting, _ said: BlobStore.DirectorySettings, _ own: BlobStore.DirectorySettings) {
      guard let text = said.text(of: setting), text != own.text(of: setting) else { return nil }
      // A store without an arrangement or a packing uses the directory's.
      if setting == .layout, own.arrangement == nil { return nil }
      if setting == .packing, own.packing == nil { return nil }
      self.setting = setting
      self.said = text
      self.own = own.text(of: setting) ?? "nothing"
    }
  }

  private static func mismatch(
    _ said: BlobStore.DirectorySettings, _ own: BlobStore.Configuration.Layout, _ file: FilePath
  ) -> BlobStoreError {
    var layout = own
    layout.follow(said)
    return BlobStoreError(
      .layoutMismatch,
      "the directory's records have the layout \(layout.words), and this program's would have \(own.words); "
        + "`Configuration(following:)` takes the directory's",
      path: file)
  }
}

extension RecordLayout {
  var words: String { "\(naming.rawValue), \(arrangement.rawValue)" }
}
