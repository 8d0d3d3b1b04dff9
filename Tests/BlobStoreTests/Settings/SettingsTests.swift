import BlobRecord
import BlobStore
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#elseif canImport(Android)
  import Android
#endif

/// P16: the settings of a directory.
@Suite struct SettingsTests {
  let cache: Cache

  init() throws {
    cache = try Cache()
    try cache.makeDirectory("")
  }

  private static let file = ".blobcache.conf"

  /// Settings with a value for every property.
  private static var full: BlobStore.DirectorySettings {
    var settings = BlobStore.DirectorySettings()
    settings.defaultTimeToLive = .never
    settings.sizeLimit = .atMost(1 << 31)
    settings.countLimit = .unlimited
    settings.freeSpaceFloor = 0
    settings.eviction = .oldest
    settings.naming = .sha256
    settings.arrangement = .flat
    return settings
  }

  private func write(_ settings: BlobStore.DirectorySettings) throws {
    try BlobStore.changeSettings(of: cache.root) { $0 = settings }
  }

  private func text() throws -> String { String(decoding: try cache.bytes(Self.file), as: UTF8.self) }

  // MARK: - Content

  @Test func whatIsWrittenIsReadAgain() throws {
    try write(Self.full)
    #expect(try BlobStore.settings(of: cache.root) == Self.full)
    let lines = try text().split(separator: "\n")
    #expect(
      lines.dropLast() == [
        "blobcache 2", "default-ttl never", "size-limit 2147483648", "count-limit none", "keep-free 0",
        "eviction oldest",
        "naming sha256", "layout flat",
      ])
    #expect(lines.last?.wholeMatch(of: /check [0-9a-f]{8}/) != nil)
  }

  @Test func aChangeKeepsTheRest() throws {
    try write(Self.full)
    try BlobStore.changeSettings(of: cache.root) { $0.sizeLimit = .unlimited }
    var expected = Self.full
    expected.sizeLimit = .unlimited
    #expect(try BlobStore.settings(of: cache.root) == expected)
  }

  @Test func settingsThatSayNothingLeaveNoFile() throws {
    #expect(try BlobStore.settings(of: cache.root).isEmpty)
    try write(Self.full)
    try BlobStore.changeSettings(of: cache.root, resetting: true) { _ in }
    #expect(try !cache.exists(Self.file))
    #expect(try BlobStore.settings(of: cache.root).isEmpty)
  }

  @Test func anAbsentDirectorySaysNothingAndIsNotMade() throws {
    let missing = cache.root.appending("missing")
    #expect(try BlobStore.settings(of: missing).isEmpty)
    expect(.directoryMissing) { try BlobStore.changeSettings(of: missing) { $0.sizeLimit = .atMost(1) } }
    #expect(try !cache.exists("missing"))
  }

  @Test func valuesOutOfRangeAreRefused() throws {
    try write(Self.full)
    let before = try text()
    let changes: [(inout BlobStore.DirectorySettings) -> Void] = [
      { $0.sizeLimit = .atMost(0) }, { $0.countLimit = .atMost(-1) }, { $0.freeSpaceFloor = -1 },
      { $0.defaultTimeToLive = .seconds(59) },
    ]
    for change in changes {
      expect(.invalidConfiguration) { try BlobStore.changeSettings(of: cache.root, change) }
      #expect(try text() == before)
    }
  }

  // MARK: - Hostile files

  /// A flipped bit results in an error or in equal settings.
  @Test func noFlippedBitChangesASetting() throws {
    try write(Self.full)
    let whole = try cache.bytes(Self.file)
    for index in whole.indices {
      for bit in 0..<8 {
        var bytes = whole
        bytes[index] ^= 1 << bit
        try cache.write(bytes, to: Self.file)
        expect(.settingsUnreadable) { _ = try BlobStore.settings(of: cache.root) }
      }
    }
  }

  @Test func noShorterFileIsRead() throws {
    try write(Self.full)
    let whole = try cache.bytes(Self.file)
    for count in 0..<whole.count {
      try cache.write(Array(whole.prefix(count)), to: Self.file)
      expect(.settingsUnreadable) { _ = try BlobStore.settings(of: cache.root) }
    }
  }

  /// Writes the lines to the settings file with a valid checksum.
  private func plant(_ lines: String...) throws {
    let text = lines.map { $0 + "\n" }.joined()
    let check = String(CRC32.checksum(of: unsafe Array(text.utf8).span.bytes), radix: 16)
    let padded = String(repeating: "0", count: 8 - check.count) + check
    try cache.write(Array("\(text)check \(padded)\n".utf8), to: Self.file)
  }

  @Test(arguments: [
    "size-limit 0", "size-limit -1", "size-limit 01", "size-limit 9223372036854775808", "size-limit", "size-limit  1",
    "count-limit never", "keep-free none", "keep-free -1", "default-ttl 59", "default-ttl none", "naming plain",
    "eviction newest", "eviction", "layout tree", "colour red", "", "blobcache 1",
  ])
  func alineThatIsNoSettingIsNamed(line: String) throws {
    try plant("blobcache 1", "size-limit none", line)
    let error = #expect(throws: BlobStoreError.self) { try BlobStore.settings(of: cache.root) }
    #expect(error?.code == .settingsUnreadable)
    #expect(error?.message.contains("line 3: ") == true)
    #expect(error?.message.contains("--reset") == true)
    #expect(error?.path == cache.root.appending(Self.file))
  }

  @Test func aLaterVersionIsRefused() throws {
    try plant("blobcache 3", "size-limit none")
    let error = #expect(throws: BlobStoreError.self) { try BlobStore.settings(of: cache.root) }
    #expect(error?.message.contains("later version") == true)
  }

  @Test func whatIsNoFileIsRefusedByEveryOperation() throws {
    let path = cache.path(Self.file)
    let makers: [() throws -> Void] = [
      { try check(mkdir(path, 0o700), "mkdir") }, { try check(mkfifo(path, 0o600), "mkfifo") },
      { try check(symlink("/dev/null", path), "symlink") },
      {
        try cache.write([UInt8](repeating: 0x20, count: 1), to: Self.file)
        try check(truncate(path, 1 << 30), "truncate")
      },
    ]
    for make in makers {
      try make()
      let store = try cache.store()
      expect(.settingsUnreadable) { _ = try store.load("key") }
      expect(.settingsUnreadable) { try store.store(payload(1), for: "key") }
      expect(.settingsUnreadable) { try store.collect() }
      expect(.settingsUnreadable) { _ = try BlobStore.Configuration(following: cache.root) }
      #expect(try cache.outside.names(in: "cache") == [Self.file])
      try check(remove(path), "remove")
    }
  }

  @Test(.enabled(if: geteuid() == 0, "only the superuser gives files away"))
  func anotherUsersFileIsRefused() throws {
    try check(chmod(cache.path(""), 0o1777), "chmod")
    try write(Self.full)
    try check(chown(cache.path(Self.file), 54_321, 54_321), "chown")
    let error = #expect(throws: BlobStoreError.self) { try BlobStore.settings(of: cache.root) }
    #expect(error?.code == .settingsUnreadable)
    #expect(error?.message.contains("it belongs to user 54321") == true)
  }

  @Test func aFileThatStrangersMayWriteToIsRefused() throws {
    try check(chmod(cache.path(""), 0o755), "chmod")
    try write(Self.full)
    try check(chmod(cache.path(Self.file), 0o666), "chmod")
    expect(.settingsUnreadable) { _ = try BlobStore.settings(of: cache.root) }
  }

  @Test func aResetReadsNothing() throws {
    try cache.write([1, 2, 3], to: Self.file)
    expect(.settingsUnreadable) { try BlobStore.changeSettings(of: cache.root) { $0.sizeLimit = .atMost(1) } }
    let settings = try BlobStore.changeSettings(of: cache.root, resetting: true) { $0.sizeLimit = .atMost(1) }
    #expect(try BlobStore.settings(of: cache.root) == settings)
  }

  // MARK: - Effects of settings

  @Test func aFollowerTakesTheDirectorysSettings() throws {
    try cache.store {
      $0.limits.size = 5 << 20
      $0.access.recordsConfiguration = true
    }.store(payload(1), for: "key")
    var settings = BlobStore.DirectorySettings()
    settings.countLimit = .atMost(7)
    settings.defaultTimeToLive = .seconds(86_400)
    settings.eviction = .oldest
    try write(settings)
    let configuration = try BlobStore.Configuration(following: cache.root)
    #expect(configuration.limits.count == 7)
    #expect(configuration.expiry.defaultTimeToLive == .seconds(86_400))
    #expect(configuration.limits.eviction == .oldest)
    // The recorded configuration of the program applies to settings that the directory does not have.
    #expect(configuration.limits.size == 5 << 20)
  }

  /// Settings survive the control file and are effective without one.
  @Test func settingsOutliveTheControlFileAndTheBlobs() throws {
    try cache.store().store(payload(1), for: "key")
    var settings = BlobStore.DirectorySettings()
    settings.sizeLimit = .atMost(9 << 20)
    try write(settings)
    let store = try cache.store()
    try store.removeAll(.all)
    #expect(try store.usage().foreignFiles == 0)
    #expect(try store.verify().foreignFiles == 0)
    try check(unlink(cache.path(".blobcache")), "unlink")
    #expect(try BlobStore.Configuration(following: cache.root).limits.size == 9 << 20)
  }

  @Test func blobsOfADirectoryThatSaysNeverStay() throws {
    var settings = BlobStore.DirectorySettings()
    settings.defaultTimeToLive = .never
    try write(settings)
    var configuration = try BlobStore.Configuration(following: cache.root)
    configuration.now = { [clock = cache.clock] in clock.now }
    let store = try BlobStore(directory: cache.root, configuration: configuration)
    try store.store(payload(1), for: "key")
    cache.clock.advance(by: 1 << 40)
    #expect(try store.collect().expired == 0)
    #expect(try store.load("key")?.payload == payload(1))
  }

  // MARK: - Programs that differ

  @Test func aDifferenceIsToldOnceAndTheProgramsHolds() throws {
    var settings = BlobStore.DirectorySettings()
    settings.sizeLimit = .atMost(1 << 20)
    settings.eviction = .oldest
    try write(settings)
    let log = RecordedLog()
    let store = try cache.store {
      $0.logger = log.logger
      $0.access.recordsConfiguration = true
    }
    try store.store(payload(1), for: "key")
    #expect(try store.load("key") != nil)
    #expect(log.warnings.count == 1)
    #expect(
      log.warnings.first?.contains("says size-limit 1048576, eviction oldest; this program says none, frequency")
        == true)
    let visitor = RecordedLog()
    _ = try cache.store {
      $0.logger = visitor.logger
      $0.access.recordsConfiguration = false
    }.load("key")
    #expect(visitor.warnings.isEmpty)
  }

  @Test func anotherLayoutIsAnErrorAndChangesNothing() throws {
    try cache.store().store(payload(1), for: "key", ttl: .seconds(60))
    try BlobStore.changeSettings(of: cache.root) { $0.naming = .encoded }
    cache.clock.advance(by: 1000)
    let names = try cache.outside.names(in: "cache")
    for layout in [RecordLayout(naming: .sha256), RecordLayout(naming: .verbatim)] {
      let store = try cache.store { $0.layout = .init(layout) }
      expect(.layoutMismatch) { _ = try store.load("key") }
      expect(.layoutMismatch) { try store.store(payload(1), for: "key") }
      expect(.layoutMismatch) { try store.collect() }
      expect(.layoutMismatch) { try store.removeAll(.all) }
    }
    #expect(try cache.outside.names(in: "cache") == names)
    #expect(try cache.exists("ke/key"))
  }

  @Test func recordsKeepTheirLayout() throws {
    try cache.store().store(payload(1), for: "a/key")
    for change in [{ $0.naming = .sha256 }, { $0.arrangement = .flat }, { $0.naming = .verbatim }]
      as [(inout BlobStore.DirectorySettings) -> Void]
    {
      let error = #expect(throws: BlobStoreError.self) { try BlobStore.changeSettings(of: cache.root, change) }
      #expect(error?.code == .invalidConfiguration)
      #expect(error?.message.contains("a%/a%2Fkey") == true)
    }
    #expect(try !cache.exists(Self.file))
    try BlobStore.changeSettings(of: cache.root) { $0.arrangement = .prefix }
    #expect(try cache.store().load("a/key") != nil)
  }

  @Test func aDirectoryOfSPTPersistentCacheHasVerbatimNames() throws {
    let store = try BlobStore(directory: cache.root, configuration: .sptPersistentCache)
    try store.store(payload(1), for: "100%")
    #expect(try cache.exists("10/100%"))
    expect(.invalidKey) { try store.store(payload(1), for: "a/b") }
  }
}
