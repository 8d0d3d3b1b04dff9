internal import BlobRecord
internal import Posix
internal import SystemPackage

/// A change of a directory's settings, while no collection and no other change of them is under way.
///
/// The collector's byte keeps collections off, where there is a control file. A change makes none: a control file says that
/// a directory is a cache, and this one may be any. `flock(2)` on the root keeps other changes off, also those that began
/// before there was a control file.
struct SettingsChange {
  let core: StoreCore

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
        if new.arrangement == nil, try mustKeepSpread(known, in: open) { new.arrangement = .spread }
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

  /// Locks the root until it is closed.
  ///
  /// - Parameter needsIt: false where any reader can hold the lock without end, and this process holds the collector's
  ///   byte. A process that has the lock all the time is such a reader then: a change takes some milliseconds.
  /// - Throws: `busy` if another process has the lock as long as this one waits, and it is needed.
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

  /// - Throws: `invalidConfiguration` for packs in a directory that SPTPersistentCache may share.
  private func refusePacking(_ settings: BlobStore.DirectorySettings) throws(BlobStoreError) {
    guard settings.naming == .verbatim, settings.packing?.bound != nil else { return }
    throw BlobStoreError(
      .invalidConfiguration,
      "records of the verbatim naming are never packed, because SPTPersistentCache would not see them; use the encoded or "
        + "the sha256 naming",
      path: core.root.path)
  }

  // MARK: - Layout

  /// Whether settings that say no arrangement would hide records that are spread.
  ///
  /// A directory's records are taken for those of `prefix` where nothing says how they lie.
  private func mustKeepSpread(_ known: RecordLayout?, in open: OpenRoot) throws -> Bool {
    // Settings that cannot be read are about to be replaced.
    if let said = (try? open.settings())?.arrangement { return said == .spread }
    if let known { return known.arrangement == .spread }
    for naming in RecordNaming.allCases {
      var isSpread = false
      try forEachRecord(of: RecordLayout(naming: naming, arrangement: .spread), in: open) { _, isPacked in
        if !isPacked { isSpread = true }
      }
      if isSpread { return true }
    }
    return false
  }

  /// - Throws: `invalidConfiguration` if a sound record lies where the layout puts none, or under a name of another key.
  private func refuseMixture(
    of layout: RecordLayout, _ current: RecordLayout, in open: OpenRoot
  ) throws {
    for naming in RecordNaming.allCases {
      for arrangement in RecordArrangement.allCases {
        let other = RecordLayout(naming: naming, arrangement: arrangement)
        guard other != layout else { continue }
        try forEachRecord(of: other, in: open) { path, isPacked in
          // A packed record lies in no subdirectory.
          let place =
            isPacked
            ? layout.path(ofFileName: path.fileName) : layout.path(ofFileName: path.fileName, in: path.subdirectory)
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
    of layout: RecordLayout, in open: OpenRoot, _ body: (RecordPath, _ isPacked: Bool) throws -> Void
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
      try body(path, entry.packed != nil)
    }
  }

  // MARK: - File

  /// - Parameter replacing: whether there may be a file; else one that has come since stays.
  /// - Returns: false if one has come.
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
