internal import BlobRecord
internal import Posix
internal import SystemPackage

/// A change of a directory's settings, while no collection and no other change of them is under way.
///
/// The collector's byte keeps collections off, where there is a control file. A change makes none: a control file says that
/// a directory is a cache, and this one may be any. `flock(2)` on the root keeps other changes off, also those that began
/// before there was a control file.
struct SettingsChange {
  private let core: StoreCore

  /// - Parameter core: of the directory, without a say in its settings.
  init(_ core: StoreCore) { self.core = core }

  /// Sound records that are looked at, and entries altogether, to tell how a directory is laid out.
  private static let recordsLookedAt = 64
  private static let entriesLookedAt = 4096

  func make(
    resetting: Bool, _ change: (inout BlobStore.DirectorySettings) -> Void
  ) throws -> BlobStore.DirectorySettings {
    var options = BlobStore.CollectionOptions(dryRun: true)
    options.waitsForOther = .seconds(30)
    return try core.withCollectorLock(options) { control in
      guard let open = try core.root.opened() else { throw noDirectory }
      let root = try open.directory.reopened()
      defer { extendLifetime(root) }
      try lock(root, needsIt: control == nil || !open.ownership.isOpenToReaders)
      let old = try resetting ? BlobStore.DirectorySettings() : open.settings() ?? BlobStore.DirectorySettings()
      var new = old
      change(&new)
      try validate(new)
      if old.naming != new.naming || old.arrangement != new.arrangement {
        var current = control?.hint?.layout ?? RecordLayout()
        current.follow(old)
        var layout = RecordLayout()
        layout.follow(new)
        try refuseMixture(of: layout, current, in: open)
      }
      try write(new, in: open)
      return new
    }
  }

  /// Locks the root until it is closed.
  ///
  /// - Parameter needsIt: false where any reader can hold the lock without end, and this process holds the collector's
  ///   byte. A process that has the lock all the time is such a reader then: a change takes some milliseconds.
  /// - Throws: `busy` if another process has the lock as long as this one waits, and it is needed.
  private func lock(_ root: borrowing Directory, needsIt: Bool) throws {
    let timeout = core.configuration.access.lockTimeout
    var backoff = Backoff(timeout: timeout)
    while try !root.tryLock() {
      if backoff.wait() { continue }
      guard !needsIt else {
        throw BlobStoreError(
          .busy, "others have been changing this directory, or have kept it locked, for \(timeout)",
          path: core.root.path)
      }
      return
    }
  }

  private var noDirectory: BlobStoreError {
    BlobStoreError(.directoryMissing, "there is no such directory", path: core.root.path)
  }

  /// The file must be readable again.
  private func validate(_ settings: BlobStore.DirectorySettings) throws(BlobStoreError) {
    for setting in DirectorySetting.allCases {
      guard let text = settings.text(of: setting) else { continue }
      var read = BlobStore.DirectorySettings()
      guard read.set(setting, to: text) else {
        throw BlobStoreError(
          .invalidConfiguration, "\(setting.rawValue) must be \(setting.forms), and is \(text)", path: core.root.path)
      }
    }
  }

  // MARK: - Layout

  /// - Throws: `invalidConfiguration` if a sound record lies where the layout puts none, or under a name of another key.
  private func refuseMixture(
    of layout: RecordLayout, _ current: RecordLayout, in open: OpenRoot
  ) throws {
    for naming in RecordNaming.allCases {
      for arrangement in RecordArrangement.allCases {
        let other = RecordLayout(naming: naming, arrangement: arrangement)
        guard other != layout else { continue }
        try forEachRecord(of: other, in: open) { path in
          let place = layout.path(ofFileName: path.fileName, in: path.subdirectory)
          // Some names are names by two namings. Then the layout that holds so far says whose they are.
          let isOther =
            place == nil
            || other == current && layout.naming.key(ofFileName: path.fileName) != naming.key(ofFileName: path.fileName)
          guard isOther else { return }
          throw BlobStoreError(
            .invalidConfiguration,
            "records lie here by the layout \(other.words), such as \(path.relative), and \(layout.words) would not find "
              + "them; remove them first (`blobcache remove --all`), or keep their layout",
            path: core.root.path)
        }
      }
    }
  }

  private func forEachRecord(
    of layout: RecordLayout, in open: OpenRoot, _ body: (RecordPath) throws -> Void
  ) throws {
    let walk = try core.records.walk(open, by: layout)
    var records = 0
    var entries = 0
    while records < Self.recordsLookedAt, entries < Self.entriesLookedAt, let item = try walk.next() {
      entries += 1
      guard case .record(let entry) = item, entry.header != nil, entry.damage == nil, let path = entry.path else {
        continue
      }
      records += 1
      try body(path)
    }
  }

  // MARK: - File

  private func write(_ settings: BlobStore.DirectorySettings, in open: OpenRoot) throws {
    if settings.isEmpty {
      guard try open.directory.unlink(SettingsFile.name) else { return }
    } else {
      let place = OpenSubdirectory(try open.directory.reopened())
      var draft = try FileDraft(in: place, of: open.ownership, names: core.temporaryNames)
      let content = SettingsFile.content(for: settings)
      try draft.file.write(unsafe content.span.bytes, at: 0)
      try draft.synchronize(.full)
      try draft.replace(SettingsFile.name)
    }
    try open.directory.synchronize()
  }
}
