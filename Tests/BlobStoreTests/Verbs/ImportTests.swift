import BlobRecord
import BlobStore
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// Spec/CommandLine.md, `import`.
@Suite struct ImportTests {
  let cache: Cache
  let store: BlobStore
  let source: TemporaryDirectory

  init() throws {
    cache = try Cache()
    store = try cache.store()
    source = try TemporaryDirectory()
  }

  private func write(_ text: String, to name: String, age: Int64 = 0) throws {
    let url = source.url(name)
    try FileManager.default.createDirectory(at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
    try Data(text.utf8).write(to: url)
    let modified = Date(timeIntervalSince1970: Double(cache.now - age))
    try FileManager.default.setAttributes([.modificationDate: modified], ofItemAtPath: url.path)
  }

  private func text(_ key: BlobKey) throws -> String? {
    try store.load(key, touching: false).map { String(decoding: $0.payload, as: UTF8.self) }
  }

  @Test func theFilesOfADirectoryAreStoredUnderTheirPaths() throws {
    try write("one", to: "one.png")
    try write("two", to: "deep/er/two with a space")
    try write("", to: "empty")
    let report = try store.importFiles(from: source.path, BlobStore.ImportOptions(lifetime: .limited(.seconds(90))))
    #expect(report.imported == 3)
    #expect(report.bytes == 6)
    #expect(try text("one.png") == "one")
    #expect(try text("deep/er/two with a space") == "two")
    #expect(try store.header(for: "empty")?.ttl == 90)
    #expect(try source.names() == ["deep", "empty", "one.png"])
  }

  /// Small files are stored in packs, and existing packed records are recognized.
  @Test func smallFilesArePacked() throws {
    let store = try cache.store { $0.packing = .upTo(1000) }
    try write("one", to: "one")
    try write(String(repeating: "x", count: 2000), to: "large")
    try write("", to: "empty")
    let options = BlobStore.ImportOptions(lifetime: .limited(.seconds(90)))
    #expect(try store.importFiles(from: source.path, options).imported == 3)
    let packed = try store.records().filter { $0.packed != nil }
    #expect(Set(packed.map(\.key)) == ["one", "empty"])
    #expect(packed.allSatisfy { $0.header?.ttl == 90 })
    #expect(try text("one") == "one")
    // The two keys exchange their sizes.
    try write(String(repeating: "y", count: 2000), to: "one")
    try write("two", to: "large")
    #expect(try store.importFiles(from: source.path).present == 3)
    #expect(try store.importFiles(from: source.path, BlobStore.ImportOptions(replacing: true)).imported == 3)
    #expect(Set(try store.records().filter { $0.packed != nil }.map(\.key)) == ["large", "empty"])
    #expect(try text("large") == "two")
    #expect(try text("one")?.count == 2000)
    #expect(try store.records().map(\.key).count == 3)
  }

  @Test(arguments: [SystemCall.openDirectory, .listDirectory], [Errno.permissionDenied, .ioError])
  func aDirectoryBelowThatCannotBeListedDoesNotEndTheImport(call failing: SystemCall, errno: Errno) throws {
    for name in ["a", "closed/b", "d/e"] { try write("text", to: name) }
    let trace = CallTrace()
    trace.onCall { call, path in
      call == failing && path.string.hasSuffix("/closed") ? .fail(errno) : nil
    }
    var failed: [String: BlobStoreError] = [:]
    let report = try cache.store(files: trace.files).importFiles(from: source.path) { finding in
      if case .failed(let path, let error) = finding { failed[path.string] = error }
    }
    #expect(report.imported == 2)
    #expect(report.failed == 1)
    #expect(failed.keys.sorted() == ["closed"])
    #expect(failed["closed"]?.errno == errno)
    #expect(failed["closed"]?.path?.string.hasSuffix("/closed") == true)
    #expect(throws: BlobStoreError.self) {
      trace.onCall { call, path in call == failing && path.string == source.path.string ? .fail(errno) : nil }
      return try cache.store(files: trace.files).importFiles(from: source.path)
    }
  }

  /// The kind of a directory entry is unknown, as on some file systems, and opening it shows a symbolic link.
  @Test func whatTurnsOutToBeALinkIsPassedOver() throws {
    try write("text", to: "a")
    try write("text", to: "link/b")
    let trace = CallTrace()
    trace.onCall { call, path in
      call == .openDirectory && path.string.hasSuffix("/link") ? .fail(.tooManySymbolicLinkLevels) : nil
    }
    let report = try cache.store(files: trace.files).importFiles(from: source.path)
    #expect(report.imported == 1 && report.skipped == 1 && report.failed == 0)
  }

  @Test func whatIsNoFileOfTheDirectoryIsPassedOver() throws {
    try write("hidden", to: ".DS_Store")
    try write("hidden", to: ".git/config")
    let outside = try TemporaryDirectory()
    try Data("secret".utf8).write(to: outside.url("secret"))
    for (name, target) in [("link", "secret"), ("directory-link", "")] {
      try FileManager.default.createSymbolicLink(at: source.url(name), withDestinationURL: outside.url(target))
    }
    try check(mkfifo(source.url("fifo").path, 0o600), "mkfifo")
    var skipped: Set<String> = []
    let report = try store.importFiles(from: source.path) { finding in
      if case .skipped(let path) = finding { skipped.insert(path.string) }
    }
    #expect(skipped == [".DS_Store", ".git", "link", "directory-link", "fifo"])
    #expect(report.skipped == 5)
    #expect(report.imported == 0)
    #expect(try store.usage().records == 0)
  }

  @Test func aLiveBlobStaysUnlessItIsToBeReplaced() throws {
    try store.store(Data("mine".utf8), for: "key", locks: .one)
    try write("theirs", to: "key")
    #expect(try store.importFiles(from: source.path).present == 1)
    #expect(try text("key") == "mine")
    #expect(try store.importFiles(from: source.path, BlobStore.ImportOptions(replacing: true)).imported == 1)
    #expect(try text("key") == "theirs")
  }

  @Test func aDamagedOrExpiredBlobGivesWay() throws {
    try store.store(Data("mine".utf8), for: "damaged")
    try store.store(Data("mine".utf8), for: "expired", ttl: .seconds(1))
    try cache.write(Array("not a record".utf8), to: "da/damaged")
    cache.clock.advance(by: 2)
    try write("theirs", to: "damaged")
    try write("theirs", to: "expired")
    #expect(try store.importFiles(from: source.path).imported == 2)
    #expect(try text("damaged") == "theirs")
    #expect(try text("expired") == "theirs")
  }

  @Test func aCacheIsNotImportedIntoItself() throws {
    try store.store(Data("blob".utf8), for: "key")
    expect(.sourceMissing) { try store.importFiles(from: store.directory) }
    let report = try store.importFiles(from: cache.outside.path)
    #expect(report.imported == 0)
    #expect(report.skipped == 1)
    expect(.sourceMissing) { try store.importFiles(from: source.path.appending("absent")) }
  }

  @Test func whatCannotBeReadOrNamedDoesNotEndTheImport() throws {
    let trace = CallTrace()
    let store = try cache.store(files: trace.files) { $0.layout.naming = .verbatim }
    try write("unreadable", to: "bad")
    try write("no name under this naming", to: "a/b")
    try write("good", to: "good")
    trace.onCall { call, path in
      call == .openBeneath && path.string.hasSuffix("/bad") ? .fail(.permissionDenied) : nil
    }
    var failures: Set<String> = []
    let report = try store.importFiles(from: source.path) { finding in
      if case .failed(let path, let error) = finding { failures.insert("\(path) \(error.code)") }
    }
    #expect(failures == ["bad fileSystem", "a/b invalidKey"])
    #expect(report.imported == 1)
    #expect(openPaths(below: source.path) == [])
  }
}

// MARK: - PINCache

extension ImportTests {
  #if os(Linux)
    private static let ageLimit = "user.com.pinterest.PINDiskCache.ageLimit"
  #else
    private static let ageLimit = "com.pinterest.PINDiskCache.ageLimit"
  #endif

  private func setAttribute(_ bytes: [UInt8], of name: String) throws {
    try BlobStoreTests.setAttribute(Self.ageLimit, bytes, ofFile: source.url(name).path)
  }

  private func setAgeLimit(_ seconds: Double, of name: String) throws {
    try setAttribute(withUnsafeBytes(of: seconds.bitPattern.littleEndian) { Array($0) }, of: name)
  }

  @Test func keysOfPINCacheAreUnescaped() throws {
    try write("1", to: "http%3A%2F%2Fexample%2Ecom%2Fa%25b")
    try write("2", to: "%2Ehidden")
    try write("3", to: "100%")
    try write("4", to: "sub/file")
    let report = try store.importFiles(from: source.path, BlobStore.ImportOptions(format: .pinCache))
    #expect(report.imported == 2)
    #expect(report.skipped == 2)
    #expect(try text("http://example.com/a%b") == "1")
    #expect(try text(".hidden") == "2")
  }

  /// The limit and the age of the file in seconds, and the remaining time to live, or `nil` if it has expired.
  @Test(
    arguments: [
      (600, 100, 500), (600.5, 100, 501), (100, 100, nil), (99, 100, nil), (0, 100, never), (-1, 100, never),
      (.nan, 100, never),
      (.infinity, 100, never), (1e300, 0, never), (600, -100, 700),
    ] as [(Double, Int64, UInt64?)])
  func anAgeLimitOfPINCacheBecomesATimeToLive(limit: Double, age: Int64, left: UInt64?) throws {
    try write("object", to: "object", age: age)
    try setAgeLimit(limit, of: "object")
    let report = try store.importFiles(from: source.path, BlobStore.ImportOptions(format: .pinCache))
    #expect(report.imported == (left == nil ? 0 : 1))
    #expect(report.expired == (left == nil ? 1 : 0))
    #expect(try store.header(for: "object")?.ttl == left)
  }

  @Test(arguments: [0, 7, 9, 64]) func anAttributeOfAnotherSizeIsNoAgeLimit(byteCount: Int) throws {
    try write("object", to: "object")
    try setAttribute([UInt8](repeating: 0x41, count: byteCount), of: "object")
    #expect(try store.importFiles(from: source.path, BlobStore.ImportOptions(format: .pinCache)).imported == 1)
    #expect(try store.header(for: "object")?.ttl == Self.never)
  }

  /// An object without a limit in its library never expires, unless the import has a different default.
  @Test(
    arguments: [
      (nil, never), (.never, never), (.defaultExpiration, 0), (.limited(.seconds(90)), 90),
    ] as [(BlobStore.ImportedLifetime?, UInt64)]) func anObjectWithoutALimitLivesForEver(
      lifetime: BlobStore.ImportedLifetime?, ttl: UInt64
    ) throws
  {
    try write("object", to: "object")
    let report = try store.importFiles(
      from: source.path, BlobStore.ImportOptions(format: .pinCache, lifetime: lifetime))
    #expect(report.withoutExpiry == (ttl == Self.never ? 1 : 0))
    #expect(report.withDefaultExpiration == (ttl == 0 ? 1 : 0))
    #expect(try store.header(for: "object")?.ttl == ttl)
  }

  /// The `ttl` field of a record that never expires.
  private static let never = UInt64(Int64.max)
}

// MARK: - Nuke and Kingfisher

extension ImportTests {
  @Test func filesOfNukeAreStoredUnderTheirNames() throws {
    let name = "0beec7b5ea3f0fdbc95d0dd47f3c5bc275da8a33"
    try write("image", to: name, age: 1_000_000)
    try write("no file of Nuke's", to: "sub/file")
    let report = try store.importFiles(from: source.path, BlobStore.ImportOptions(format: .nuke))
    #expect(report.imported == 1 && report.skipped == 1 && report.withoutExpiry == 1)
    #expect(try text(BlobKey(name)) == "image")
    #expect(try store.header(for: BlobKey(name))?.ttl == Self.never)
  }

  /// The seconds until the modification time, and the time to live, or `nil` if it has expired.
  @Test(arguments: [(500, 500), (1, 1), (0, nil), (-1, nil), (3_000_000_000, 3_000_000_000)] as [(Int64, UInt64?)])
  func theDateOfAFileOfKingfisherIsItsExpiry(left: Int64, ttl: UInt64?) throws {
    try write("image", to: "acbd18db4cc2f85cedef654fccc4a4d8.png", age: -left)
    let report = try store.importFiles(from: source.path, BlobStore.ImportOptions(format: .kingfisher))
    #expect(report.expired == (ttl == nil ? 1 : 0))
    #expect(try store.header(for: "acbd18db4cc2f85cedef654fccc4a4d8.png")?.ttl == ttl)
  }

  /// The date is in the year 2201, which every file system can represent.
  @Test func aDateInTheDistantFutureIsNever() throws {
    try write("image", to: "image", age: cache.now - 7_300_000_000)
    #expect(try store.importFiles(from: source.path, BlobStore.ImportOptions(format: .kingfisher)).withoutExpiry == 1)
    #expect(try store.header(for: "image")?.ttl == Self.never)
  }

  @Test func aDryRunStoresNothingAndMakesNoCache() throws {
    try write("image", to: "image", age: -500)
    var options = BlobStore.ImportOptions(format: .kingfisher)
    options.dryRun = true
    let fresh = try Cache().store()
    var lifetime: BlobStore.ImportedLifetime?
    let report = try fresh.importFiles(from: source.path, options) {
      if case .imported(_, "image", byteCount: 5, let found) = $0 { lifetime = found }
    }
    #expect(report.imported == 1 && report.bytes == 5)
    #expect(lifetime == .limited(.seconds(500)))
    #expect(!FileManager.default.fileExists(atPath: fresh.directory.string))
  }
}

// MARK: - Deep trees

extension ImportTests {
  /// Runs a body with a chain of directories named `d`, some of which contain a file `f`. They are created and
  /// removed without paths, which would be too long.
  private func withChain(depth: Int, fileEvery step: Int, _ body: () throws -> Void) throws {
    let top = source.path.string
    var descriptor = open(top, O_RDONLY | O_DIRECTORY)
    for level in 1...depth {
      try check(mkdirat(descriptor, "d", 0o700), "mkdirat")
      let next = openat(descriptor, "d", O_RDONLY | O_DIRECTORY)
      try check(next < 0 ? -1 : 0, "openat")
      close(descriptor)
      descriptor = next
      guard level % step == 0 else { continue }
      let file = openat(descriptor, "f", O_WRONLY | O_CREAT, 0o600)
      try check(file < 0 ? -1 : 0, "openat")
      close(file)
    }
    close(descriptor)
    defer {
      // Lower directories are moved up, level by level.
      for _ in 0..<depth {
        unlink(top + "/d/f")
        rename(top + "/d/d", top + "/up")
        rmdir(top + "/d")
        rename(top + "/up", top + "/d")
      }
    }
    try body()
  }

  /// The tree is deeper than a recursion on a thread's stack, or a descriptor for each level, would permit.
  @Test func theDepthOfATreeTakesNoStackAndFewDescriptors() throws {
    let depth = 4000
    let store = try cache.store { $0.layout.naming = .sha256 }
    var descriptors = 0
    try withChain(depth: depth, fileEvery: 1000) {
      let report = try store.importFiles(from: source.path) { finding in
        guard case .imported = finding else { return }
        descriptors = max(descriptors, openPaths(below: source.path).count)
      }
      #expect(report.imported == 4)
      #expect(report.failed == 0)
    }
    #if os(Linux)
      #expect((1...32).contains(descriptors))
    #endif
    let key = String(repeating: "d/", count: depth) + "f"
    #expect(try store.load(BlobKey(key))?.payload.isEmpty == true)
    #expect(openPaths(below: source.path) == [])
  }

  /// If paths become longer than the maximum key, their directory is reported once, and files next to it are
  /// imported.
  ///
  /// The reference format limits keys to the file name; other records can contain keys of 64 KiB.
  @Test func whatLiesTooDeepForAKeyIsOneFailure() throws {
    let store = try cache.store { $0.format = .reference }
    var failures: [BlobStoreError] = []
    var paths: [FilePath] = []
    // The encoded name is "d%2F" for each level and "f" for the file.
    let levels = (RecordNaming.maximumFileNameBytes - 1) / 4
    try withChain(depth: 4000, fileEvery: 1) {
      try write("beside", to: "z/y")
      let report = try store.importFiles(from: source.path) { finding in
        if case .failed(let path, let error) = finding {
          failures.append(error)
          paths.append(path)
        }
      }
      #expect(report.imported == Int64(levels) + 1)
      #expect(report.failed == 1)
    }
    #expect(failures.map(\.code) == [.invalidKey])
    #expect(paths.map(\.components.count) == [levels + 1])
    #expect(try store.load("z/y")?.payload == Data("beside".utf8))
  }

  /// A directory is opened again on the way back up; a directory that has replaced it is not mistaken for it.
  @Test(arguments: [false, true]) func aDirectoryThatIsReplacedMeanwhileIsNotWalked(isRemoved: Bool) throws {
    let deep = (0..<40).map { "d\($0)" }.joined(separator: "/")
    try write("deep", to: deep + "/f")
    for name in ["d0/aside/f", "d0/d1/aside/f"] { try write("aside", to: name) }
    let outside = try TemporaryDirectory()
    let top = source.path.string
    let store = try cache.store { $0.layout.naming = .sha256 }
    var imported: [String] = []
    var failed: [String: Errno] = [:]
    let source = source
    try store.importFiles(from: source.path) { finding in
      switch finding {
      case .imported(let path, _, _, _):
        imported.append(path.string)
        guard path.string.hasPrefix(deep) else { return }
        #expect(rename(top + "/d0/d1", outside.path.string + "/d1") == 0)
        if !isRemoved { #expect(mkdir(top + "/d0/d1", 0o700) == 0) }
      case .failed(let path, let error): failed[path.string] = error.errno
      default: break
      }
    }
    // The order of the two directories depends on the file system.
    #expect(imported.contains(deep + "/f"))
    #expect(imported.contains("d0/aside/f"))
    let isAsideFirst = imported.firstIndex(of: "d0/d1/aside/f") != nil
    #expect(failed == (isAsideFirst ? [:] : ["d0/d1/aside": .noSuchFileOrDirectory]))
  }
}
