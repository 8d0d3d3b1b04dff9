internal import BlobRecord

/// `.blobcache.used` at the root, which contains the configuration of the last program that changed the directory
/// (Spec/Semantics.md, P17c).
///
/// It has the form of the settings file, and contains what the settings leave open, for tools that work on the directory.
/// It is a separate file, because it is only advice: any program may replace it, and an invalid or untrusted file is
/// ignored.
enum RecordedConfiguration {
  static let name = ".blobcache.used"

  /// Returns the values of a configuration that a tool needs in order to work like the program, without the defaults.
  static func values(of configuration: BlobStore.Configuration) -> BlobStore.DirectorySettings {
    let (own, builtIn) = (BlobStore.DirectorySettings(configuration), BlobStore.DirectorySettings(.init()))
    var values = BlobStore.DirectorySettings()
    if own.defaultTimeToLive != builtIn.defaultTimeToLive { values.defaultTimeToLive = own.defaultTimeToLive }
    if own.sizeLimit != builtIn.sizeLimit { values.sizeLimit = own.sizeLimit }
    if own.naming != builtIn.naming { values.naming = own.naming }
    values.arrangement = own.arrangement
    return values
  }
}

extension OpenRoot {
  /// Returns the configuration that a program has recorded, which is empty if there is none.
  ///
  /// System calls: `openat2(2)`, and if the file exists, `fstat(2)`, `pread(2)`, and `close(2)`.
  func recordedConfiguration() throws -> BlobStore.DirectorySettings {
    // Users who do not trust each other record nothing, and a stranger's file that cannot be opened must stop nobody.
    guard !ownership.isSharedByStrangers else { return .init() }
    do {
      return try settings(in: RecordedConfiguration.name) ?? .init()
    } catch let error as BlobStoreError where error.code == .settingsUnreadable {
      return .init()
    }
  }

  /// Returns the layout of the directory's records, or `nil` if neither settings nor a program state the arrangement.
  func statedLayout() throws -> RecordLayout? {
    let (recorded, said) = (try recordedConfiguration(), try settings() ?? .init())
    guard said.arrangement != nil || recorded.arrangement != nil else { return nil }
    var layout = RecordLayout()
    layout.follow(recorded)
    layout.follow(said)
    return layout
  }
}
