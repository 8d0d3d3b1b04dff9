import BlobRecord
import Foundation
import SystemPackage
import TestSupport
import Testing

@testable import BlobStore

/// Spec/CommandLine.md, `import`: caches with a database, created by Python's SQLite with the libraries' schemas.
@Suite(.enabled(if: DatabaseMaker.isAvailable, "needs python3 and SQLite")) struct ImportDatabaseTests {
  let cache: Cache
  let store: BlobStore
  let source: TemporaryDirectory

  init() throws {
    cache = try Cache()
    store = try cache.store()
    source = try TemporaryDirectory()
  }

  /// The schema of YYKVStorage.m.
  private static let manifest =
    "create table if not exists manifest (key text, filename text, size integer, inline_data blob, "
    + "modification_time integer, last_access_time integer, extended_data blob, primary key(key));"

  /// The schema of CFNetwork.
  private static let urlCache = """
    CREATE TABLE cfurl_cache_response(entry_ID INTEGER PRIMARY KEY AUTOINCREMENT UNIQUE, version INTEGER,
      hash_value INTEGER, storage_policy INTEGER, request_key TEXT UNIQUE,
      time_stamp NOT NULL DEFAULT CURRENT_TIMESTAMP, partition TEXT);
    CREATE TABLE cfurl_cache_blob_data(entry_ID INTEGER PRIMARY KEY, response_object BLOB, request_object BLOB,
      proto_props BLOB, user_info BLOB);
    CREATE TABLE cfurl_cache_receiver_data(entry_ID INTEGER PRIMARY KEY, isDataOnFS INTEGER, receiver_data BLOB);
    """

  private func make(_ name: String, _ statements: String, keepingLog: Bool = false) throws {
    try DatabaseMaker.make(source.url(name), statements, keepingLog: keepingLog)
  }

  private func write(_ text: String, to name: String) throws {
    let url = source.url(name)
    try FileManager.default.createDirectory(at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
    try Data(text.utf8).write(to: url)
  }

  private func text(_ key: BlobKey) throws -> String? {
    try store.load(key, touching: false).map { String(decoding: $0.payload, as: UTF8.self) }
  }

  /// Imports, and returns the outcome for each file and the report.
  private func importing(
    _ options: BlobStore.ImportOptions
  ) throws -> (findings: [String], report: BlobStore.ImportReport) {
    var findings: [String] = []
    let report = try store.importFiles(from: source.path, options) { finding in
      switch finding {
      case .imported(let path, let key, let count, _): findings.append("\(path) \(key.string) \(count)")
      case .present(let path, _): findings.append("\(path) present")
      case .expired(let path): findings.append("\(path) expired")
      case .skipped(let path): findings.append("\(path) skipped")
      case .failed(let path, let error): findings.append("\(path) \(error.code)")
      }
    }
    return (findings, report)
  }

  // MARK: - YYCache

  @Test func rowsOfYYCacheAreStoredUnderTheirKeys() throws {
    let name = "5eb63bbbe01eeed093cb22bb8f5acdc3"
    try write("in a file", to: "data/\(name)")
    try make(
      "manifest.sqlite",
      Self.manifest + """
        insert into manifest values ('https://example.com/a?b=c#d', NULL, 6, x'696e6c696e65', 1, 1, NULL);
        insert into manifest values ('é/..', '\(name)', 9, NULL, 1, 1, x'00FF');
        insert into manifest values ('empty', NULL, 0, x'', 1, 1, x'696d6167652f706e67');
        insert into manifest values ('gone', 'absent', 1, NULL, 1, 1, NULL);
        insert into manifest values ('nothing', NULL, 1, NULL, 1, 1, NULL);
        insert into manifest values (NULL, NULL, 1, x'00', 1, 1, NULL);
        """)
    let before = try source.names()
    let (findings, report) = try importing(BlobStore.ImportOptions(format: .yyCache))
    #expect(
      findings == [
        "manifest.sqlite https://example.com/a?b=c#d 6", "data/\(name) é/.. 9", "manifest.sqlite empty 0",
        "data/absent skipped", "manifest.sqlite skipped", "manifest.sqlite skipped",
      ])
    #expect(report.imported == 3 && report.withoutExpiry == 3 && report.skipped == 3)
    #expect(try text("https://example.com/a?b=c#d") == "inline")
    #expect(try text("é/..") == "in a file")
    #expect(try store.header(for: "empty")?.ttl == UInt64(Int64.max))
    #expect(try store.extendedData(for: "empty") == Data("image/png".utf8))
    #expect(try store.extendedData(for: "é/..") == Data([0, 0xFF]))
    #expect(try store.extendedData(for: "https://example.com/a?b=c#d") == nil)
    #expect(try source.names() == before)
    #expect(try importing(BlobStore.ImportOptions(format: .yyCache)).report.present == 3)
  }

  /// A row with too much extended data fails, also in a dry run, and the other rows are imported.
  @Test(arguments: [false, true]) func tooMuchExtendedDataFailItsRow(isDryRun: Bool) throws {
    let data = String(repeating: "00", count: 4097)
    try make(
      "manifest.sqlite",
      Self.manifest + """
        insert into manifest values ('large', NULL, 1, x'00', 1, 1, x'\(data)');
        insert into manifest values ('small', NULL, 1, x'00', 1, 1, x'01');
        """)
    var options = BlobStore.ImportOptions(format: .yyCache)
    options.dryRun = isDryRun
    let findings = try importing(options).findings
    #expect(findings == ["manifest.sqlite extendedDataTooLarge", "manifest.sqlite small 1"])
    #expect(try store.usage().records == (isDryRun ? 0 : 1))
  }

  /// YYCache seldom closes its database, so the latest rows are in the write-ahead log.
  @Test func whatLiesInTheLogIsImportedToo() throws {
    try make(
      "manifest.sqlite",
      "pragma journal_mode = wal;" + Self.manifest
        + "insert into manifest values ('key', NULL, 3, x'6c6f67', 1, 1, NULL);", keepingLog: true)
    #expect(try source.names().contains("manifest.sqlite-wal"))
    #expect(try importing(BlobStore.ImportOptions(format: .yyCache)).report.imported == 1)
    #expect(try text("key") == "log")
  }

  @Test func aDryRunReadsTheRows() throws {
    try make(
      "manifest.sqlite", Self.manifest + "insert into manifest values ('key', NULL, 1, x'00', 1, 1, NULL);")
    var options = BlobStore.ImportOptions(format: .yyCache, lifetime: .limited(.seconds(5)))
    options.dryRun = true
    #expect(try importing(options).findings == ["manifest.sqlite key 1"])
    #expect(try store.usage().records == 0)
  }

  /// A file name from the database never refers to a file outside its directory.
  @Test(arguments: ["../secret", "a/b", ".", "..", "", "/etc/passwd", "link"])
  func aHostileNameIsNotFollowed(name: String) throws {
    try write("secret", to: "secret")
    try write("", to: "data/a/b")
    try FileManager.default.createSymbolicLink(
      at: source.url("data/link"), withDestinationURL: source.url("secret"))
    try make(
      "manifest.sqlite", Self.manifest + "insert into manifest values ('key', '\(name)', 1, NULL, 1, 1, NULL);")
    let expected = name == "link" ? "data/link skipped" : "data/\(FilePath(name).string) sourceUnreadable"
    let finding = try importing(BlobStore.ImportOptions(format: .yyCache)).findings
    #expect(finding.count == 1)
    #expect(finding.first?.hasSuffix(expected.components(separatedBy: " ")[1]) == true, "\(finding)")
    #expect(try store.usage().records == 0)
  }

  /// A view could execute code of the database, in this case an infinite query.
  @Test func aViewInTheTablesPlaceIsNotRead() throws {
    try make(
      "manifest.sqlite",
      "create view manifest as with recursive r(key) as (select 1 union all select key + 1 from r) "
        + "select key, NULL as filename, x'00' as inline_data from r;")
    expect(.sourceUnreadable) { try store.importFiles(from: source.path, BlobStore.ImportOptions(format: .yyCache)) }
  }

  @Test(arguments: BlobStore.ImportFormat.allCases.filter { $0.database != nil }, ["no database", ""])
  func whatIsNoDatabaseIsATypedError(format: BlobStore.ImportFormat, content: String) throws {
    let layout = try #require(format.database)
    expect(.sourceMissing) { try store.importFiles(from: source.path, BlobStore.ImportOptions(format: format)) }
    try write(content, to: layout.database)
    expect(.sourceUnreadable) { try store.importFiles(from: source.path, BlobStore.ImportOptions(format: format)) }
    try FileManager.default.removeItem(at: source.url(layout.database))
    try FileManager.default.createSymbolicLink(
      at: source.url(layout.database), withDestinationURL: source.url("elsewhere"))
    expect(.sourceMissing) { try store.importFiles(from: source.path, BlobStore.ImportOptions(format: format)) }
  }

  /// Each page of the file is overwritten, which results in rows or typed errors, never in a wrong payload.
  @Test func aDamagedPageIsATypedError() throws {
    let rows = (0..<200).map { "insert into manifest values ('key\($0)', NULL, 600, zeroblob(600), 1, 1, NULL);" }
    try make("manifest.sqlite", Self.manifest + rows.joined())
    let sound = try Data(contentsOf: source.url("manifest.sqlite"))
    var options = BlobStore.ImportOptions(format: .yyCache)
    options.dryRun = true
    for page in 0..<(sound.count / 4096) {
      var bytes = sound
      bytes.replaceSubrange(page * 4096..<(page + 1) * 4096, with: Data(repeating: 0xA5, count: 4096))
      try bytes.write(to: source.url("manifest.sqlite"))
      do {
        let (findings, report) = try importing(options)
        #expect(report.failed == 0 || findings.last == "manifest.sqlite sourceUnreadable", "page \(page)")
        #expect(report.imported <= 200)
      } catch let error as BlobStoreError {
        #expect(error.code == .sourceUnreadable, "page \(page): \(error)")
      }
    }
  }

  @Test func withoutSQLiteThatIsSaid() throws {
    #expect(SQLite.find(in: "libno-such-library.so") == nil)
    let path = source.path.appending("manifest.sqlite")
    do {
      _ = try ForeignDatabase(at: path, hasLog: false, nil)
      Issue.record("it was opened")
    } catch {
      #expect(error.code == .sourceUnreadable)
      #expect(error.message == "this database is read by SQLite, and \(SQLite.libraryName) is not installed")
    }
  }

  // MARK: - URLCache

  @Test func bodiesOfURLCacheAreStoredUnderTheirURLs() throws {
    let name = "5F8E1E5C-9F3A-4B57-8F0E-0E5C5F2B8A11"
    try write("a large body", to: "fsCachedData/\(name)")
    try make(
      "Cache.db",
      Self.urlCache + """
        insert into cfurl_cache_response(entry_ID, request_key) values (1, 'https://example.com/small');
        insert into cfurl_cache_receiver_data values (1, 0, x'626f6479');
        insert into cfurl_cache_response(entry_ID, request_key) values (2, 'https://example.com/large');
        insert into cfurl_cache_receiver_data values (2, 1, '\(name)');
        insert into cfurl_cache_response(entry_ID, request_key) values (3, 'https://example.com/no-body');
        insert into cfurl_cache_response(entry_ID, request_key) values (4, 'https://example.com/null');
        insert into cfurl_cache_receiver_data values (4, 0, NULL);
        """)
    let (findings, report) = try importing(BlobStore.ImportOptions(format: .urlCache))
    #expect(
      findings.sorted() == [
        "Cache.db https://example.com/small 4", "Cache.db skipped", "fsCachedData/\(name) https://example.com/large 12",
      ])
    #expect(report.withDefaultExpiration == 2)
    #expect(try text("https://example.com/small") == "body")
    #expect(try text("https://example.com/large") == "a large body")
  }
}

/// Creates databases with Python's SQLite.
enum DatabaseMaker {
  static let isAvailable: Bool = {
    guard SQLite.shared != nil else { return false }
    do {
      try run(["-c", "import sqlite3"])
      return true
    } catch {
      return false
    }
  }()

  /// - Parameter keepingLog: A Boolean value that indicates whether the program exits without closing the database.
  static func make(_ url: URL, _ statements: String, keepingLog: Bool = false) throws {
    let script = """
      import os, sqlite3, sys
      database = sqlite3.connect(sys.argv[1])
      database.executescript(sys.argv[2])
      database.commit()
      if sys.argv[3] == "true": os._exit(0)
      database.close()
      """
    try run(["-c", script, url.path, statements, "\(keepingLog)"])
  }

  private static func run(_ arguments: [String]) throws {
    try ChildProcess.runSuccessfully(["python3"] + arguments)
  }
}
