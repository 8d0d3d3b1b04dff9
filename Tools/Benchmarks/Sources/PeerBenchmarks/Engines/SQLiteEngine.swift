#if SQLITE
  import CRawFiles
  import CSQLite
  import Foundation
  import Synchronization
  import SystemPackage
  import Workbench

  /// SQLite as YYCache's engine uses it, with its table, its index of access times, and a write-ahead log. Statements
  /// are prepared once, and each change is a separate transaction.
  ///
  /// There are two differences. YYCache stores values above 20 KiB in files, whereas this database contains all
  /// values. YYCache has one connection with a lock, whereas each thread here loads by its own connection. Only
  /// changes wait for each other, which is faster for SQLite than its built-in wait for a busy database.
  final class SQLiteEngine: Engine {
    private let path: String
    private let synchronous: String
    private let changes = ChangeLock()
    /// Keeps the database open while no thread uses it.
    private let first: SQLiteSession
    private var isFirstTaken = false

    init(directory: FilePath, synchronous: String) throws {
      try FileManager.default.createDirectory(atPath: directory.string, withIntermediateDirectories: true)
      path = directory.appending("manifest.sqlite").string
      self.synchronous = synchronous
      first = try SQLiteSession(path, synchronous, changes)
    }

    func session() throws -> any Session {
      guard isFirstTaken else {
        isFirstTaken = true
        return first
      }
      return try SQLiteSession(path, synchronous, changes)
    }
  }

  /// Serializes changes.
  private final class ChangeLock: Sendable {
    private let lock = Mutex(())

    func during(_ change: () throws -> Void) throws { try lock.withLock { _ in try change() } }
  }

  /// A connection with its statements.
  ///
  /// Unchecked: only one thread at a time uses it.
  private final class SQLiteSession: Session, @unchecked Sendable {
    private let database: OpaquePointer
    private let changes: ChangeLock
    private let saving, loading, touching, removing: OpaquePointer

    init(_ path: String, _ synchronous: String, _ changes: ChangeLock) throws {
      self.changes = changes
      var opened: OpaquePointer?
      let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX
      let result = sqlite3_open_v2(path, &opened, flags, nil)
      guard result == SQLITE_OK, let opened else { throw BenchmarkFailure("SQLite: open of \(path): \(result)") }
      database = opened
      let schema = """
        pragma journal_mode = wal; pragma synchronous = \(synchronous);
        create table if not exists manifest (key text, filename text, size integer, inline_data blob,
          modification_time integer, last_access_time integer, extended_data blob, primary key(key));
        create index if not exists last_access_time_idx on manifest(last_access_time);
        """
      guard sqlite3_exec(database, schema, nil, nil, nil) == SQLITE_OK else {
        throw BenchmarkFailure("SQLite: \(String(cString: sqlite3_errmsg(opened)))")
      }
      func prepared(_ text: String) throws -> OpaquePointer {
        var statement: OpaquePointer?
        guard sqlite3_prepare_v2(opened, text, -1, &statement, nil) == SQLITE_OK, let statement else {
          throw BenchmarkFailure("SQLite: \(text): \(String(cString: sqlite3_errmsg(opened)))")
        }
        return statement
      }
      saving = try prepared(
        """
        insert or replace into manifest (key, filename, size, inline_data, modification_time, last_access_time,
          extended_data) values (?1, null, ?2, ?3, ?4, ?5, null)
        """)
      loading = try prepared("select inline_data from manifest where key = ?1")
      touching = try prepared("update manifest set last_access_time = ?2 where key = ?1")
      removing = try prepared("delete from manifest where key = ?1")
    }

    deinit {
      for statement in [saving, loading, touching, removing] { sqlite3_finalize(statement) }
      sqlite3_close_v2(database)
    }

    func store(_ entry: Entry) throws {
      let now = Self.now()
      try entry.payload.bytes.withUnsafeBytes { payload in
        sqlite3_bind_int64(saving, 2, Int64(payload.count))
        sqlite3_bind_blob(saving, 3, payload.baseAddress, CInt(payload.count), nil)
        sqlite3_bind_int64(saving, 4, now)
        sqlite3_bind_int64(saving, 5, now)
        try changes.during { try run(saving, entry) { try done($0) } }
      }
    }

    func load(_ entry: Entry) throws -> Data? {
      try run(loading, entry) { statement in
        let result = sqlite3_step(statement)
        if result == SQLITE_DONE { return nil }
        guard result == SQLITE_ROW else { throw failure() }
        guard let bytes = sqlite3_column_blob(statement, 0) else { return Data() }
        // SQLite owns the bytes until the next step.
        return Data(bytes: bytes, count: Int(sqlite3_column_bytes(statement, 0)))
      }
    }

    func loadTouching(_ entry: Entry) throws -> Data? {
      let found = try load(entry)
      sqlite3_bind_int64(touching, 2, Self.now())
      try changes.during { try run(touching, entry) { try done($0) } }
      return found
    }

    func remove(_ entry: Entry) throws {
      try changes.during { try run(removing, entry) { try done($0) } }
      try BenchmarkFailure.require(sqlite3_changes(database) == 1, "SQLite has not removed \(entry.name)")
    }

    private func run<Answer>(
      _ statement: OpaquePointer, _ entry: Entry, _ body: (OpaquePointer) throws -> Answer
    ) throws -> Answer {
      try entry.withKeyBytes { key in
        sqlite3_bind_text(statement, 1, key.baseAddress?.assumingMemoryBound(to: CChar.self), CInt(key.count), nil)
        defer { sqlite3_reset(statement) }
        return try body(statement)
      }
    }

    private func done(_ statement: OpaquePointer) throws {
      guard sqlite3_step(statement) == SQLITE_DONE else { throw failure() }
    }

    private func failure() -> BenchmarkFailure {
      BenchmarkFailure("SQLite: \(String(cString: sqlite3_errmsg(database)))")
    }

    private static func now() -> Int64 { Int64(Date().timeIntervalSince1970) }
  }
#endif
