internal import BlobRecord
internal import Posix
internal import SystemPackage

/// A change of a directory's settings, which excludes collections and other changes of the settings.
///
/// If there is a control file, the lock on the collector's byte excludes collections. A change does not create one,
/// because a control file marks a directory as a cache, and this may be any directory. `flock(2)` on the root
/// excludes other changes, including changes that began before the control file existed.
struct SettingsChange {
  let core: StoreCore

  init(_ core: StoreCore) { self.core = core }

  /// The number of sound records, and of all entries, that are examined to determine the layout of a directory.
  private static let recordsLookedAt = 64
  private static let entriesLookedAt = 4096

  func make(
    resetting: Bool, _ change: (inout BlobStore.DirectorySettings) -> Void
  ) throws -> BlobStore.DirectorySettings {
    var options = BlobStore.CollectionOptions(dryRun: true)
    options.waitsForOther = .seconds(30)
    return try CollectorLock(of: core).hold(options) { control in
      guard let open = try core.root.opened() else { throw noDirectory }
      let root = try open.directory.reopened()
      defer { extendLifetime(root) }
      try lock(root, needsIt: control == nil || !open.ownership.isOpenToReaders)
      while true {
        let said = try resetting ? nil : open.settings()
        let old = said ?? BlobStore.DirectorySettings()
        var new = old
        change(&new)
        try validate(new)
        try refusePacking(new)
        let known = control?.hint?.layout
        let isOtherLayout = old.naming != new.naming || old.arrangement != new.arrangement
        if new.arrangement == nil { new.arrangement = try digestArrangement(known, in: open) }
        if isOtherLayout {
          var current = known ?? RecordLayout()
          current.follow(old)
          var layout = RecordLayout(arrangement: current.arrangement)
          layout.follow(new)
          try refuseMixture(of: layout, current, in: open)
        }
        if try write(new, in: open, replacing: resetting || said != nil) { return new }
      }
    }
  }

  /// Locks the root until it is closed. Throws `busy` if the lock is needed and not available in time.
  ///
  /// The lock is not needed if this process holds the collector's byte and any reader can hold the lock indefinitely. A
  /// process that holds it all the time is assumed to be such a reader, because a change takes milliseconds.
  func lock(_ root: borrowing Directory, needsIt: Bool) throws {
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

  /// Checks that the resulting file is readable.
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

  /// Throws `invalidConfiguration` for packs in a directory that SPTPersistentCache may share.
  private func refusePacking(_ settings: BlobStore.DirectorySettings) throws(BlobStoreError) {
    guard settings.naming == .verbatim, settings.packing?.bound != nil else { return }
    throw BlobStoreError(
      .invalidConfiguration,
      "records of the verbatim naming are never packed, because SPTPersistentCache would not see them; use the encoded or "
        + "the sha256 naming",
      path: core.root.path)
  }

  // MARK: - Layout

  /// Returns the arrangement of records that are arranged by digests, which settings without an arrangement would hide,
  /// because they imply `prefix`. Without settings and hint, it is `adaptive`, which also finds `spread` records.
  private func digestArrangement(_ known: RecordLayout?, in open: OpenRoot) throws -> RecordArrangement? {
    // Unreadable settings are about to be replaced.
    if let said = (try? open.settings())?.arrangement ?? known?.arrangement {
      return said == .spread || said == .adaptive ? said : nil
    }
    for naming in RecordNaming.allCases {
      var isSpread = false
      try forEachRecord(of: RecordLayout(naming: naming, arrangement: .adaptive), in: open) { _, isPacked in
        if !isPacked { isSpread = true }
      }
      if isSpread { return .adaptive }
    }
    return nil
  }

  /// Throws `invalidConfiguration` if the layout would not find a sound record, or would assign it to another key.
  private func refuseMixture(
    of layout: RecordLayout, _ current: RecordLayout, in open: OpenRoot
  ) throws {
    for naming in RecordNaming.allCases {
      for arrangement in RecordArrangement.allCases {
        let other = RecordLayout(naming: naming, arrangement: arrangement)
        guard other != layout else { continue }
        try forEachRecord(of: other, in: open) { path, isPacked in
          // Packed records are not stored in subdirectories.
          let place =
            isPacked
            ? layout.path(ofFileName: path.fileName) : layout.path(ofFileName: path.fileName, in: path.subdirectory)
          // Some names are valid in two namings. The current layout then determines their keys.
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
    of layout: RecordLayout, in open: OpenRoot, _ body: (RecordPath, _ isPacked: Bool) throws -> Void
  ) throws {
    let walk = try Records(core).walk(open, by: layout)
    var records = 0
    var entries = 0
    while records < Self.recordsLookedAt, entries < Self.entriesLookedAt, let item = try walk.next() {
      entries += 1
      guard case .record(let entry) = item, entry.header != nil, entry.damage == nil, let path = entry.path else {
        continue
      }
      records += 1
      try body(path, entry.packed != nil)
    }
  }

  // MARK: - File

  /// Writes the settings. Without `replacing`, returns `false` if a settings file exists.
  func write(_ settings: BlobStore.DirectorySettings, in open: OpenRoot, replacing: Bool) throws -> Bool {
    if settings.isEmpty {
      guard try replacing && open.directory.unlink(SettingsFile.name) else { return true }
    } else {
      let place = OpenSubdirectory(try open.directory.reopened())
      var draft = try FileDraft(in: place, of: open.ownership, names: core.temporaryNames)
      let content = SettingsFile.content(for: settings)
      try draft.file.write(unsafe content.span.bytes, at: 0)
      try draft.synchronize(.full)
      if replacing {
        try draft.replace(SettingsFile.name)
      } else {
        guard try draft.commitOrLink(as: SettingsFile.name) else { return false }
      }
    }
    try open.directory.synchronize()
    return true
  }
}

extension SettingsChange {
  /// Writes the arrangement and the packing into a new directory's settings before the first record is stored. In a
  /// directory that is in use, determines which records are packed. If several processes store first, one of them
  /// creates the file and the others read it. Existing settings keep their values. Throws `busy` if another change of
  /// the settings takes `lockTimeout`, `fileSystem`, and the errors of reading the settings.
  func sayWhatIsNew(in open: OpenRoot) throws {
    let configuration = core.configuration
    while true {
      // This precedes reading the settings, because a directory only stops being new after they are written.
      let isNew = try open.packing == nil && open.isNew(configuration.logger)
      // Another program may have written the setting by now, or stored records by another arrangement.
      try core.root.checkSettings(of: open, isForStore: true)
      if open.packing == nil, !isNew { open.setPacking(configuration.packing ?? .off) }
      var arrangement = open.mustSayArrangement ? open.arrangement : nil
      // Without shared memory, no process knows the places of the records.
      if arrangement == .adaptive, try open.directory.mappingHazard()?.preventsMapping == true { arrangement = .spread }
      let packing = open.packing == nil ? configuration.packingOfNewDirectories : nil
      guard arrangement != nil || packing != nil else { return }
      guard try say(arrangement, packing, in: open) else { continue }
      if let arrangement { open.setArrangement(arrangement, mustBeSaid: false) }
      if let packing { open.setPacking(packing) }
      return
    }
  }

  /// Creates the settings or adds to them, and returns `false` if others have changed them in the meantime.
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
